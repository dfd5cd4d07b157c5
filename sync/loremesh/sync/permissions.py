"""What a user of a space's server may do there: as little as following its spaces takes. Pure."""

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from loremesh.sync.subjects import ROOT, inbox_prefix, stream_name, token

__all__ = ["Grant", "Role", "permissions"]

MAX_RESPONSES = 300
"""Messages a user may answer one request with: `busport.MAX_ASK_REPLIES`, the end mark, and some to spare."""
RESPONSE_EXPIRY = "1m"
"""How long an answer may take; longer than any asker waits."""

READ_VERBS = ("STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET")
MAKE_VERBS = ("STREAM.CREATE", "STREAM.UPDATE")


class Role(Enum):
    """Whether a user follows named spaces or runs the server."""

    MEMBER = "member"
    """Reads and writes the spaces named, and no other. Makes no streams."""
    HOST = "host"
    """Every space, present and to come, and makes their streams."""


class Grant(Struct, frozen=True):
    """One user: its public nkey, its role, its spaces (none: it may do nothing; ignored for a host).

    `origin` narrows it to publish frames of, and answer for, that peer; None where the user was handed out
    before its peer was known (a token), so that it may publish in every feed of its spaces. Frames prove
    themselves.
    """

    public: str
    role: Role = Role.MEMBER
    spaces: tuple[bytes, ...] = ()
    origin: bytes | None = None


def permissions(grant: Grant) -> dict[str, object]:
    """The permissions of a user, as the server's configuration writes them."""
    if grant.role is Role.HOST:
        places = [("*", "*")]
        verbs: Sequence[str] = READ_VERBS + MAKE_VERBS
    else:
        places = [(token(space), stream_name(space)) for space in grant.spaces]
        verbs = READ_VERBS
    if not places:
        # An empty list of what is allowed would allow everything.
        return {"publish": {"deny": [">"]}, "subscribe": {"deny": [">"]}}
    feeds = ">" if grant.origin is None else f"{token(grant.origin)}.>"
    asked = "*" if grant.origin is None else token(grant.origin)
    publish: list[str] = []
    subscribe = [f"{inbox_prefix(grant.public)}.>"]
    for place, stream in places:
        publish += [f"{ROOT}.{place}.f.{feeds}", f"{ROOT}.{place}.h", f"{ROOT}.{place}.q.*"]
        publish += [f"$JS.API.{verb}.{stream}" for verb in verbs]
        subscribe += [f"{ROOT}.{place}.w.>", f"{ROOT}.{place}.h", f"{ROOT}.{place}.q.{asked}"]
    return {
        "publish": {"allow": publish},
        "subscribe": {"allow": subscribe},
        "allow_responses": {"max": MAX_RESPONSES, "expires": RESPONSE_EXPIRY},
    }
