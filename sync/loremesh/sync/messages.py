"""Messages outside the chains: heads, repair requests and replies, from sealed bytes to values and back."""

import msgspec

from loremesh.sync.errors import Malformed
from loremesh.sync.opening import TurnedAway, check_signature, decode, open_sealed
from loremesh.sync.outcomes import Reason, Rejected
from loremesh.sync.repair import (
    HeadBody,
    ReplyBody,
    RequestBody,
    decode_head,
    decode_reply,
    decode_request,
    encode_message,
)
from loremesh.sync.spacestate import SpaceState, SyncState
from loremesh.sync.wire import Chain, Header, Kind, Signer, compose, seal_signed

Content = HeadBody | RequestBody | ReplyBody


class Message(msgspec.Struct, frozen=True):
    """A message that a member of its space signed."""

    space: bytes
    header: Header
    content: Content

    @property
    def origin(self) -> bytes:
        """Who signed it."""
        return self.header.origin


def open_message(state: SyncState, sealed: bytes) -> Message | Rejected:
    """The message in `sealed`, if a member signed it. Changes nothing, and raises nothing for any bytes.

    Messages are not numbered: a replayed one tells what was true once, or asks for what anyone may have.
    """
    carried = open_sealed(state, sealed)
    if isinstance(carried, Rejected):
        return carried
    try:
        frame = decode(carried)
        header, body = frame.header, frame.body
        if body is None or header.chain is not Chain.NONE:
            return Rejected(Reason.WRONG_CHAIN, f"{header.kind.name} where a message was due")
        check_signature(frame)
        if header.origin != state.own and header.origin not in state.spaces[carried.space].members:
            return Rejected(Reason.NOT_A_MEMBER, header.kind.name, header.origin)
    except TurnedAway as turned:
        if isinstance(turned.verdict, Rejected):
            return turned.verdict
        raise  # opening turns away in no other way
    try:
        return Message(carried.space, header, _decode_content(header.kind, body))
    except Malformed as wrong:
        return Rejected(Reason.MALFORMED, str(wrong), header.origin)


def _decode_content(kind: Kind, body: bytes) -> Content:
    match kind:
        case Kind.HEAD:
            return decode_head(body)
        case Kind.REQUEST:
            return decode_request(body)
        case _:
            return decode_reply(body)


def seal_message(
    signer: Signer,
    space: SpaceState,
    incarnation: bytes,
    content: Content,
    time_ms: int,
) -> bytes:
    """`content` signed and sealed under the space's current epoch. Raises `InvalidInput` if out of bounds."""
    match content:
        case HeadBody():
            kind = Kind.HEAD
        case RequestBody():
            kind = Kind.REQUEST
        case ReplyBody():
            kind = Kind.REPLY
    frame = compose(
        signer,
        space=space.space,
        incarnation=incarnation,
        kind=kind,
        body=encode_message(content),
        time_ms=time_ms,
    )
    return seal_signed(frame, space.epoch, space.epoch_keys[space.epoch])
