"""Members of one space on one bus, started and stopped together."""

from msgspec import structs

from loremesh.sync.busport import FrameSubject
from loremesh.sync.engine import SpacePhase
from loremesh.sync.memory_bus import MemoryBus, MemoryHub
from loremesh.sync.wire import Chain
from tests.sync.engines import QUICK, Member, alike
from tests.sync.nats_server import until
from tests.sync.world import Space

TEXT = "restart the indexer after a schema change"

ALONE = structs.replace(QUICK, head_s=1000.0, quiet_head_s=1000.0)
"""Without heads after the first."""


class Team:
    """Members of one space, stopped at the end whatever happened."""

    def __init__(self, hub: MemoryHub) -> None:
        self.hub = hub
        self.space = Space()
        self.all: list[Member] = []

    def member(self, name: str, **options: object) -> Member:
        """One more, not started."""
        member = Member(self.space, name, MemoryBus(self.hub, name), **options)  # type: ignore[arg-type]
        self.all.append(member)
        return member

    async def joined(self, *names: str) -> list[Member]:
        """Some more, started."""
        members = [self.member(name) for name in names]
        for member in members:
            await member.join()
        return members


async def converged(*members: Member, timeout: float = 20) -> None:
    """Wait until all hold the same and know it."""

    def same() -> bool:
        return alike(*members) and all(m.status.phase is SpacePhase.CURRENT for m in members)

    try:
        await until(same, "the nodes are alike", timeout)
    except AssertionError:
        raise AssertionError("\n".join(str(member.status) for member in members)) from None


def subject_of(member: Member, chain: Chain = Chain.DATA) -> FrameSubject:
    """Where a member publishes."""
    return FrameSubject(member.space.id, member.peer.public, member.peer.incarnation, chain)
