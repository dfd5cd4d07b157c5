"""What is known to be missing is bounded, and nobody's claims crowd out the others'."""

from collections.abc import Sequence

from loremesh.sync.enginevalues import EngineOptions, Surroundings
from loremesh.sync.feed import Want
from loremesh.sync.fetching import MAX_GAPS_TOLD, Fetcher
from loremesh.sync.memory_bus import MemoryBus, MemoryHub
from loremesh.sync.messages import Message
from loremesh.sync.opening import Carried
from loremesh.sync.outcomes import Outcome
from loremesh.sync.repair import HeadBody
from loremesh.sync.wire import Chain
from tests.sync.world import TIME_MS, Node, Peer, Space


def fetcher_of(space: Space, node: Node) -> Fetcher:
    async def take(frame: bytes | Carried) -> Sequence[Outcome]:
        return []

    def heed(message: Message, content: HeadBody) -> None:
        """Nothing is answered here."""

    async def admit(frame: bytes | Carried) -> Sequence[Outcome]:
        return []

    around = Surroundings(
        node.state,
        admit,
        node.journal,
        space.admin_identity,
        lambda: TIME_MS,
        EngineOptions(),
        lambda *_: None,
    )
    return Fetcher(space.id, MemoryBus(MemoryHub(), "here"), around, take, heed)


def claimed(peer: Peer, number: int) -> Want:
    return Want(peer.public, number.to_bytes(16, "big"), Chain.DATA, 1, 9)


async def test_a_peer_that_claims_what_is_not_there_leaves_room_for_the_others() -> None:
    space = Space()
    fetcher = fetcher_of(space, space.node())
    mallory, ann = space.peer("mallory"), space.peer("ann")
    for number in range(10 * MAX_GAPS_TOLD):
        fetcher.add(claimed(mallory, number), mallory.public, 0.0)
    fetcher.add(claimed(ann, 1), ann.public, 0.0)
    known = [behind.key.origin for behind in fetcher.behind()]
    assert known.count(mallory.public) == MAX_GAPS_TOLD
    assert known.count(ann.public) == 1
