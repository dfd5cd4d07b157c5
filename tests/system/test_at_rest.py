"""What lies on disk says nothing: a byte search of every file that two running nodes and their bus leave."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from loremesh.node import params as p
from loremesh.node import verbs
from loremesh.node.embed.hashing import HashingEmbedder
from loremesh.sync.content import block_id
from tests.system.nodes import CONFIG, NodeProcess, wait

DIMENSION = 96
TEXTS = (
    "Quokkafarm: the staging database answers on port 55113 after the Zanzibar migration",
    "Never restart Xylograph before the Wednesday snapshot, it forgets its Mnemosyne cache",
    "The Çatalhöyük exporter needs the flag --übersprung, else Ijsselmeer rows vanish",
)
WORDS = (
    "Quokkafarm", "Zanzibar", "55113", "Xylograph", "Mnemosyne", "atalhöyük", "übersprung", "Ijsselmeer",
    "tag-of-thunderclap", "context-of-bathysphere", "question-about-hippogriff", "reason-of-marzipan",
)  # fmt: skip
"""What is unmistakable in the texts, and in tags, contexts, questions and reasons."""


class Needles:
    """Byte strings that must not be found, with what each of them is."""

    def __init__(self) -> None:
        self.by_bytes: dict[bytes, str] = {}
        for text in TEXTS:
            self._add_forms(block_id(text), f"the id of {text[:12]!r}")
            (vector,) = asyncio.run(HashingEmbedder(DIMENSION).embed([text]))
            self._add_runs(vector, f"a run of the vector of {text[:12]!r}")
        for word in WORDS:
            for encoding in ("utf-8", "utf-16-le", "latin-1"):
                self.by_bytes[word.encode(encoding)] = f"the word {word!r} in {encoding}"
            self._add_base64(word.encode(), f"the word {word!r} in base64")

    def found_in(self, data: bytes) -> list[str]:
        return [what for needle, what in self.by_bytes.items() if needle in data]

    def _add_forms(self, raw: bytes, what: str) -> None:
        for at in (0, 8, 16, 24):
            self.by_bytes[raw[at : at + 8]] = f"{what}, raw"
        for coded in (raw.hex(), base64.b32encode(raw).decode().rstrip("=")):
            for part in (coded[:16], coded[-16:]):
                self.by_bytes[part.lower().encode()] = f"{what}, as text"
                self.by_bytes[part.upper().encode()] = f"{what}, as text"
        self._add_base64(raw, f"{what}, in base64")

    def _add_base64(self, raw: bytes, what: str) -> None:
        """In both alphabets and at all three alignments, without the characters that neighbours share."""
        for shift in range(3):
            whole = raw[shift : shift + (len(raw) - shift) // 3 * 3]
            for coded in (base64.b64encode(whole), base64.urlsafe_b64encode(whole)):
                if len(coded) >= 8:
                    self.by_bytes[coded] = what

    def _add_runs(self, vector: np.ndarray[tuple[int, ...], np.dtype[np.float32]], what: str) -> None:
        """Four numbers in a row that are no zeros, which is sixteen bytes."""
        for kind in (np.float32, np.float64, np.float16):
            numbers = vector.astype(kind)
            for at in range(len(numbers) - 3):
                run = numbers[at : at + 4]
                if np.all(run != 0):
                    self.by_bytes[run.tobytes()] = what


def search(root: Path, needles: Needles) -> list[str]:
    """Every file below `root` with a needle in its name or bytes; what goes while it looks is passed over."""
    found = []
    for path in sorted(root.rglob("*")):
        data = str(path.relative_to(root)).encode()
        if path.is_file() and not path.is_symlink():
            try:
                data += b"\n" + path.read_bytes()
            except FileNotFoundError:
                continue
        found += [f"{path.relative_to(root)}: {what}" for what in needles.found_in(data)]
    return found


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[NodeProcess, NodeProcess]]:
    """A host of a bus and a member, with temporary files of their own below the directory searched."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    config = CONFIG.replace("hashing:32", f"hashing:{DIMENSION}")
    host, member = (NodeProcess(tmp_path, name, config) for name in ("host", "member"))
    yield host, member
    member.stop()
    host.stop()


@pytest.mark.slow
def test_a_byte_search_of_every_file_finds_nothing(
    tmp_path: Path, pair: tuple[NodeProcess, NodeProcess]
) -> None:
    host, member = pair
    needles = Needles()
    host.up("--embedded")
    token = host.ask(verbs.SPACE_CREATE, p.SpaceCreate("team")).token
    member.up()
    member.ask(verbs.SPACE_JOIN, p.SpaceJoin(token))
    use(host, member)
    assert search(tmp_path, needles) == [], "while they run"
    member.kill()
    assert search(tmp_path, needles) == [], "after the member was killed"
    member.up()
    member.ask(verbs.FORGET, p.OneBlock(block_id(TEXTS[2]).hex()))
    assert (member.stop(), host.stop()) == (0, 0)
    left = Path("/proc", (member.home / "bus" / "nats-server.pid").read_text(), "cmdline")
    assert not left.exists() or left.read_bytes() == b"", "the killed member's server outlived it"
    assert search(tmp_path, needles) == [], "after they were stopped"
    stores = list((host.home / "bus" / "jetstream").rglob("*.blk"))
    assert sum(store.stat().st_size for store in stores) > 1000, "the bus kept nothing to search"
    assert (host.home / "checkpoint").stat().st_size > 0


def use(host: NodeProcess, member: NodeProcess) -> None:
    """Everything that handles texts: learning, sharing, embedding, recall, outcomes, trust, refusals."""
    for text in TEXTS:
        host.ask(verbs.LEARN, p.Learn(text, tags=["tag-of-thunderclap"], share=["team"]))
    wait(lambda: member.status().blocks == len(TEXTS), "the member has the texts")
    for node in (host, member):
        wait(lambda node=node: node.status().waiting == 0, "everything is embedded")  # type: ignore[misc]
        ask = p.Recall("question-about-hippogriff Xylograph", context="context-of-bathysphere", k=6)
        recalled = node.ask(verbs.RECALL, ask)
        assert len(recalled.hits) == len(TEXTS)
        node.ask(verbs.OUTCOME, p.Outcome(1.0, episode=recalled.episode))
        (peer,) = node.ask(verbs.PEERS, p.Page())
        node.ask(verbs.TRUST_SET, p.TrustSet(peer.peer, 0.75, "reason-of-marzipan"))
        node.ask(verbs.EXPLAIN, p.Explain(block_id(TEXTS[0]).hex()))
        refused = node.program.run("learn", TEXTS[0], "--share", "Quokkafarm")
        assert refused.code == 1
    wait(lambda: host.status().registers_digest == member.status().registers_digest, "both hold the same")
    wait(lambda: host.status().registers == 2 * len(TEXTS), "outcomes of both are held")


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    """The positive control: planted in a file, each kind of needle is found, whatever stands around it."""
    needles = Needles()
    raw = block_id(TEXTS[1])
    (vector,) = asyncio.run(HashingEmbedder(DIMENSION).embed([TEXTS[1]]))
    planted = {
        "raw": b"\0\1" + raw + b"\2",
        "hex": raw.hex().encode(),
        "base32": base64.b32encode(raw),
        "base64": base64.urlsafe_b64encode(b"x" + raw),
        "text": TEXTS[1].encode(),
        "vector": b"abc" + vector.tobytes(),
        "json": base64.b64encode(b"ab" + TEXTS[1].encode() + b"c"),
    }
    for name, data in planted.items():
        (tmp_path / name).write_bytes(bytes(4096) + data + bytes(99))
    assert {line.partition(":")[0] for line in search(tmp_path, needles)} == set(planted)
