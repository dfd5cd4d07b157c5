"""The hostile writer: what it composes is what the protocol must withstand."""

from __future__ import annotations

import random

import numpy as np
import pytest

from loremesh.crypto.errors import BadSignature
from loremesh.crypto.identity import Identity, verify
from loremesh.node.demo.corpus import read_facts
from loremesh.node.demo.hostile import Keys, chain, make_up, over_bound, statement
from loremesh.node.demo.kin import members
from loremesh.node.demo.tasks import make_exercises
from loremesh.sync.bodies import decode_evidence
from loremesh.sync.errors import Malformed
from loremesh.sync.fixed import MAX_FX
from loremesh.sync.outgoing import evidence_bodies
from loremesh.sync.wire import FRAME_DOMAIN, header_hash

CLAIMS = [("ab" * 32, "text", 0.25, 0.75), ("cd" * 32, "bytes", 1.0, 0.0)]
INCARNATION = b"i" * 16


def keys() -> Keys:
    return Keys(Identity.from_seed(b"m" * 32), b"s" * 32, 1, b"k" * 32, "nats://x", "", b"f" * 32)


def test_it_claims_as_much_as_a_register_can_hold_and_something_else_each_time() -> None:
    stated = [statement(CLAIMS, version, INCARNATION) for version in range(1, 6)]

    masses = [int(one.alpha[1] + one.beta[1]) for one in stated]
    assert len(set(masses)) == 5
    assert MAX_FX * 0.99 < max(masses) <= MAX_FX
    for one in stated:
        decoded = decode_evidence(evidence_bodies(one)[0])
        assert (decoded.alpha + decoded.beta <= MAX_FX).all()
        assert np.allclose(decoded.alpha[0] / (decoded.alpha + decoded.beta)[0], 0.25, atol=1e-6)


def test_what_is_over_the_bound_is_refused_by_name() -> None:
    body = over_bound(evidence_bodies(statement(CLAIMS, 1, INCARNATION))[0])

    with pytest.raises(Malformed, match="alpha"):
        decode_evidence(body)


def test_its_frames_are_a_chain_that_it_signed() -> None:
    bodies = evidence_bodies(statement(CLAIMS, 1, INCARNATION)) * 3
    frames = chain(keys(), INCARNATION, bodies)

    assert [frame.header.number for frame in frames] == [1, 2, 3]
    assert frames[2].header.previous == header_hash(frames[1].header_bytes)
    for frame in frames:
        verify(keys().identity.public, FRAME_DOMAIN, frame.header_bytes, frame.signature)


def test_its_forgeries_name_another_and_do_not_verify() -> None:
    victim = Identity.from_seed(b"v" * 32).public
    (frame,) = chain(
        keys(), INCARNATION, evidence_bodies(statement(CLAIMS, 1, INCARNATION)), in_the_name_of=victim
    )

    assert frame.header.origin == victim
    with pytest.raises(BadSignature):
        verify(victim, FRAME_DOMAIN, frame.header_bytes, frame.signature)


def test_made_up_blocks_have_the_words_of_a_task_and_name_what_does_not_solve_it() -> None:
    kin = members()
    facts = read_facts(kin)
    texts = {name: fact.text for name, fact in facts.items()}
    tasks = make_exercises(kin, texts, 30, random.Random(2)).work

    made = make_up(tasks, facts)

    assert len(made) == len(tasks)
    for task, (fact, context) in zip(tasks, made, strict=True):
        assert context == task.context
        assert fact.name not in task.solvers
        assert all(word in fact.text for word in task.question.split()[2:])
        assert fact.text not in texts.values()
