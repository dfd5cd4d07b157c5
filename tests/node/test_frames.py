"""Frames as values: own ones of config.toml, mixtures, and the preset of Park et al."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loremesh.node.errors import UsageError
from loremesh.node.events import FrameName, RecallHit, decode_own
from loremesh.node.frames import (
    MAX_FRAME_NAME,
    MAX_FRAMES,
    NAME,
    PARK,
    TERMS,
    FrameAsked,
    Frames,
    configured,
    min_max,
    recency,
    weights_of,
)
from loremesh.node.frametable import MAX_WEIGHT, FrameSettings
from loremesh.node.node import Node
from loremesh.node.params import MAX_MIXED
from loremesh.node.score import FRAMES, Terms, composite, recall_frame
from loremesh.node.settings import SettingsError, read_settings
from loremesh.node.store.values import Kind
from tests.node.guests import guest_in, take
from tests.node.homes import CONFIG, Homes, fact, faultless

weights = st.floats(0.0, MAX_WEIGHT, allow_subnormal=False)
shares = st.floats(1e-6, MAX_WEIGHT)


def table(**given: float) -> FrameSettings:
    return msgspec.convert(given, FrameSettings)


def random_terms(seed: int, size: int = 40) -> Terms:
    values = np.random.default_rng(seed).random((5, size), dtype=np.float32)
    return Terms(*values)


# own frames


def test_proportions_become_weights_that_sum_to_one() -> None:
    """Only their ratio says anything, so that every score stays in [0, 1]."""
    frame = configured({"audit": table(sim=2.0, importance=1.0, explore=1.0)}).named("audit")
    assert weights_of(frame) == {
        "sim": 0.5, "utility": 0.0, "retrievability": 0.0, "importance": 0.25, "explore": 0.25,
    }  # fmt: skip


def test_weights_that_sum_to_one_stay_as_they_were_written() -> None:
    """A frame written with the weights of `task` scores as `task` does, to the bit."""
    task = recall_frame("task")
    mine = configured({"mine": table(**weights_of(task))}).named("mine")
    assert weights_of(mine) == weights_of(task)


@given(st.tuples(weights, weights, weights, weights, weights).filter(lambda given: sum(given) > 0.0))
def test_any_frame_scores_within_zero_and_one(given: tuple[float, ...]) -> None:
    """Whatever was written, as long as some weight is above 0."""
    frame = configured({"x": table(**dict(zip(TERMS, given, strict=True)))}).named("x")
    assert math.isclose(math.fsum(weights_of(frame).values()), 1.0, rel_tol=1e-9)
    scores = composite(frame, random_terms(1))
    assert scores.min() >= 0.0
    assert scores.max() <= 1.0 + 1e-6


@pytest.mark.parametrize(
    ("toml", "named"),
    [
        ("[frames.audit]\nsim = -0.1", r"\[frames.audit\].*`float` >= 0.*`\$.sim`"),
        ("[frames.audit]\nsim = inf", r"\[frames.audit\].*sim"),
        ("[frames.audit]\nsim = nan", r"\[frames.audit\].*`\$.sim`"),
        ("[frames.audit]\nsim = 1e7", r"\[frames.audit\].*`\$.sim`"),
        ('[frames.audit]\nsim = "much"', r"\[frames.audit\].*Expected `float`.*`\$.sim`"),
        ("[frames.audit]\nsim = 0", r"\[frames.audit\] gives none of sim, utility"),
        ("[frames.audit]", r"\[frames.audit\] gives none of sim, utility"),
        ("[frames.audit]\nsimilarity = 1", r"\[frames.audit\].*unknown field `similarity`"),
        ("[frames.audit]\nsim = 1\nhourly_decay = 0.0", r"\[frames.audit\].*`\$.hourly_decay`"),
        ("[frames.audit]\nsim = 1\nhourly_decay = nan", r"\[frames.audit\].*`\$.hourly_decay`"),
        ("[frames.audit]\nsim = 1\ngraph = 1.5", r"\[frames.audit\].*`\$.graph`"),
        ("[frames.audit]\nsim = 1\nown_only = 1", r"\[frames.audit\].*`\$.own_only`"),
        ("[frames.task]\nsim = 1", r"\[frames.task\]: a frame task is there already"),
        ("[frames.park]\nsim = 1", r"\[frames.park\]: a frame park is there already"),
        ("[frames.Audit]\nsim = 1", r"\[frames.Audit\]: a frame's name"),
        ('[frames."a=1"]\nsim = 1', r"\[frames.a=1\]: a frame's name"),
        ('[frames.""]\nsim = 1', r"\[frames.\]: a frame's name"),
        (f"[frames.{'x' * 33}]\nsim = 1", "a frame's name is 1 to 32"),
        ("frames = 3", "frames"),
        ("[frames]\naudit = 3", r"\[frames.audit\]"),
        ("\n".join(f"[frames.f{n}]\nsim = 1" for n in range(MAX_FRAMES + 1)), "33 tables"),
    ],
)
def test_a_frame_that_cannot_be_is_refused_by_name(tmp_path: Path, toml: str, named: str) -> None:
    """The settings name the file, the table and the field."""
    (tmp_path / "config.toml").write_text(toml)
    with pytest.raises(SettingsError, match=named) as caught:
        read_settings(tmp_path)
    assert "config.toml" in str(caught.value)


# mixtures


@given(st.lists(shares, min_size=4, max_size=4))
def test_a_mixture_scores_as_the_mixed_scores_of_its_parts(given: list[float]) -> None:
    """The score is linear in the weights: Σ share · score is the score by Σ share · weights."""
    mixed = Frames().named(dict(zip(FRAMES, given, strict=True)))
    terms = random_terms(2)
    total = sum(given)
    expected = sum(
        share / total * composite(frame, terms).astype(np.float64)
        for share, frame in zip(given, FRAMES.values(), strict=True)
    )
    assert composite(mixed, terms) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("asked", ["task=0.7,self=0.3", " task = 7 , self=3.0", {"task": 0.7, "self": 0.3}])
def test_a_mixture_can_be_written_or_given_as_shares(asked: FrameAsked) -> None:
    """Text and mapping mean the same; shares are proportions; the name says them as they count."""
    mixed = Frames().named(asked)
    assert mixed.name == "task=0.7,self=0.3"
    assert mixed.importance == pytest.approx(0.7 * 0.10 + 0.3 * 0.40)


def test_a_mixture_keeps_peers_out_only_where_all_of_its_parts_do() -> None:
    """Else a share of `self` would take what the other frame finds out of the answer."""
    frames = configured({"me": FrameSettings(sim=1.0, own_only=True)})
    assert not frames.named("task=0.7,self=0.3").own_only
    assert frames.named("me=0.5,self=0.5").own_only


def test_frames_on_other_scales_cannot_be_mixed() -> None:
    """Park's terms are stretched over each answer's blocks: there is no one weight for both kinds."""
    frames = configured({
        "scaled": FrameSettings(sim=1.0, min_max=True),
        "alike": FrameSettings(importance=1.0, min_max=True, hourly_decay=0.995),
    })  # fmt: skip
    for asked in ("park=1,task=1", "scaled=1,park=1"):
        with pytest.raises(UsageError, match="cannot be mixed"):
            frames.named(asked)
    mixed = frames.named("park=1,alike=1")
    assert (mixed.min_max, mixed.hourly_decay) == (True, 0.995)
    assert mixed.importance == pytest.approx((1 / 3 + 1.0) / 2)


def test_what_links_count_is_mixed_by_share_and_comes_on_top() -> None:
    """It is no proportion: the other weights sum to 1 beside it."""
    frames = configured({"near": FrameSettings(sim=2.0, graph=0.8)})
    assert weights_of(frames.named("near")) == {
        "sim": 1.0, "utility": 0.0, "retrievability": 0.0, "importance": 0.0, "explore": 0.0, "links": 0.8,
    }  # fmt: skip
    assert frames.named("near=1,task=3").graph == pytest.approx(0.2)


def test_a_mixture_of_one_is_that_frame() -> None:
    """There is nothing to mix: it is logged and shown under its own name."""
    assert Frames().named("task=0.2") == recall_frame("task")


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ("task=0.7,self", "share ''.*'self'"),
        ("task=,self=1", "share ''"),
        ("task=0.7,self=-0.3", "-0.3"),
        ("task=0.7,self=0", "'0'"),
        ("task=nan,self=1", "nan"),
        ("task=inf,self=1", "inf"),
        ("task=0.5,task=0.5", "'task' is in the mixture twice"),
        ("task=0.5,dream=0.5", "frame 'dream' is unknown"),
        ("=1", "frame '' is unknown"),
        (",".join(f"f{n}=1" for n in range(MAX_MIXED + 1)), "9 frames"),
        ({}, "mixture of 0 frames"),
        ({"task": "x"}, "share 'x'"),
        ({"task": None}, "share 'None'"),
        ("", "frame '' is unknown"),
        ("Task", "frame 'Task' is unknown"),
        (7, "frame is a int"),
        ("x" * 100_000, "is unknown"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused_by_name(asked: FrameAsked, named: str) -> None:
    """Names, shares and their number are checked, and the error says what to write."""
    with pytest.raises(UsageError, match=named) as caught:
        Frames().named(asked)
    assert caught.value.hint
    assert len(str(caught.value)) < 300


def test_the_longest_name_of_a_mixture_fits_its_bound() -> None:
    """What the log keeps of it, and a file of the log must hold."""
    names = [f"{'x' * 30}-{n}" for n in range(MAX_MIXED)]
    assert all(NAME.fullmatch(name) for name in names)
    frames = configured(dict.fromkeys(names, FrameSettings(sim=1.0)))
    mixed = frames.named({name: 1e-6 if n else MAX_WEIGHT for n, name in enumerate(names)})
    assert len(mixed.name) <= MAX_FRAME_NAME


# Park et al.


def test_park_is_three_equal_terms_scaled_over_the_answer() -> None:
    """Against the formula written out: recency, importance, relevance, each min-max, in equal parts."""
    rng = np.random.default_rng(3)
    size = 30
    sim, importance, age = rng.random(size), rng.random(size), rng.random(size) * 400
    eligible = rng.random(size) < 0.8
    flat = np.zeros(size, np.float32)
    decayed = recency(PARK.hourly_decay or 0.0, age).astype(np.float32)
    terms = Terms(sim.astype(np.float32), flat, decayed, importance.astype(np.float32), flat)
    scores = composite(PARK, min_max(terms, eligible))

    def scaled(values: list[float]) -> list[float]:
        return [(value - min(values)) / (max(values) - min(values)) for value in values]

    rows = np.flatnonzero(eligible).tolist()
    three = [
        scaled([0.995 ** float(age[row]) for row in rows]),
        scaled([float(importance[row]) for row in rows]),
        scaled([float(sim[row]) for row in rows]),
    ]
    expected = [sum(each) / 3 for each in zip(*three, strict=True)]
    assert scores[rows].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_term_that_is_the_same_everywhere_counts_one_half() -> None:
    """There is no range to divide by; and rows that are out are cut off, never above a row that is in."""
    flat = np.full(3, 0.3, np.float32)
    one = np.array([0.2, 0.4, 0.9], np.float32)
    scaled = min_max(Terms(one, flat, flat, flat, flat), np.array([True, True, False]))
    assert (scaled.sim.tolist(), scaled.utility.tolist()) == ([0.0, 1.0, 1.0], [0.5, 0.5, 0.5])
    nobody = min_max(Terms(one, flat, flat, flat, flat), np.zeros(3, np.bool_))
    assert nobody.sim.tolist() == one.tolist()


def test_recency_is_one_at_once_and_nothing_where_there_never_was_an_event() -> None:
    """A block known only from a peer without evidence has no last event."""
    faded = recency(0.995, np.array([0.0, 1.0, 100.0, np.inf, -5.0]))
    assert faded.tolist() == pytest.approx([1.0, 0.995, 0.995**100, 0.0, 1.0])


# through a node


FRAMED = (
    CONFIG
    + """
[frames.audit]
importance = 3
explore = 1
own_only = true
"""
)


async def test_a_node_recalls_in_its_own_frames_in_mixtures_and_as_park(homes: Homes) -> None:
    """The answer has the frame's name and weights; scores are in [0, 1] and the sum of the weighed parts."""
    async with homes.create("alice", FRAMED) as node:
        for n in range(12):
            homes.pass_minutes(20)
            await node.learn(fact(n))
        await node.consolidate()
        asked: list[FrameAsked] = ["audit", "park", "task=0.7,self=0.3", {"task": 0.7, "audit": 0.3}]
        for frame in asked:
            found = await node.recall("restart the queue", frame=frame, k=12)
            assert len(found.hits) == 12
            assert math.isclose(sum(found.weights.values()), 1.0)
            for hit in found.hits:
                total = sum(found.weights[name] * part for name, part in hit.parts.items())
                assert hit.score == pytest.approx(total, abs=1e-9)
                assert 0.0 <= hit.score <= 1.0
            scores = [(-hit.score, hit.block) for hit in found.hits]
            assert scores == sorted(scores)
        homes.pass_minutes(20)
        await node.outcome(1.0, blocks=[found.hits[3].block])
        park = await node.recall("restart the queue", frame="park", k=12)
        for name in ("sim", "retrievability"):
            assert {min(h.parts[name] for h in park.hits), max(h.parts[name] for h in park.hits)} == {0, 1}
        await faultless(node)


async def test_an_own_only_frame_keeps_peers_out_and_a_mixture_with_another_does_not(homes: Homes) -> None:
    """Peers' texts are theirs: they enter no frame that says so."""
    async with homes.create("alice", FRAMED) as node:
        bob = await guest_in(node, "bob", 1.0)
        await take(node, bob.blocks("Drain the queue first"))
        await node.learn("Fill the queue last")
        for frame, texts in (("audit", 1), ("self=1,audit=1", 1), ("task=1,audit=1", 2)):
            assert len((await node.recall("queue", frame=frame)).hits) == texts


async def test_recency_of_its_own_takes_the_place_of_retrievability(homes: Homes) -> None:
    """0.5 to the active hours since the block's last event, whatever its stability."""
    config = CONFIG + "[frames.fresh]\nretrievability = 1\nhourly_decay = 0.5\n"
    async with homes.create("alice", config) as node:
        await node.learn("Drain the queue first")
        for _ in range(4):
            homes.pass_minutes(15)
            (hit,) = (await node.recall("queue", frame="fresh")).hits
        assert hit.score == pytest.approx(0.5, abs=1e-6)


async def test_the_log_says_which_frame_a_hit_came_through(homes: Homes) -> None:
    """The four by number as ever; any other by its name, in the log and to people."""
    async with homes.create("alice", FRAMED) as node:
        block = (await node.learn("Drain the queue first")).block
        for frame in ("task", "audit", "task=0.7,self=0.3"):
            await node.recall("queue", frame=frame)
        told = [event.detail["frame"] for event in await node.events(block) if event.kind == "recall_hit"]
        assert told == ["task", "audit", "task=0.7,self=0.3"]
        kept = [hit async for hit in hits_of(node)]
        assert [(hit.frame, hit.frame_name) for hit in kept] == [
            (FrameName.TASK, ""),
            (FrameName.OTHER, "audit"),
            (FrameName.OTHER, "task=0.7,self=0.3"),
        ]
        await faultless(node)


async def hits_of(node: Node):  # type: ignore[no-untyped-def]
    """The recall hits in the log, as they stand there."""
    async for rows in node.ground.store.scan():
        for row in rows:
            if row.kind is Kind.OWN and row.payload is not None:
                event = decode_own(row.payload)
                if isinstance(event, RecallHit):
                    yield event


async def test_frames_are_listed_with_where_they_come_from(homes: Homes) -> None:
    """The four, the preset, own ones."""
    async with homes.create("alice", FRAMED) as node:
        seen = {frame.name: frame for frame in await node.frames()}
        assert list(seen) == [*FRAMES, "park", "audit"]
        assert {name: frame.source for name, frame in seen.items() if name not in FRAMES} == {
            "park": "Park et al. 2023",
            "audit": "config.toml",
        }
        assert {seen[name].source for name in FRAMES} == {"built in"}
        assert (seen["audit"].own_only, seen["audit"].weights["importance"]) == (True, 0.75)
        assert (seen["park"].min_max, seen["park"].hourly_decay) == (True, 0.995)
        for name, frame in seen.items():
            found = await node.recall("anything", frame=name)
            assert found.weights == frame.weights
