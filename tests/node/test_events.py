"""Events as bytes: the form in the log is fixed, and what is not an event is refused."""

import pytest

from loremesh.node import events
from loremesh.node.events import (
    Connect,
    Consolidate,
    Counted,
    Event,
    EventError,
    Forgot,
    FrameName,
    Import,
    Imported,
    ImportedTrust,
    ImportSource,
    Incarnation,
    Learn,
    Linked,
    Outcome,
    RecallHit,
    Rescore,
    Share,
    Trust,
)

OWN: list[tuple[Event, str, str]] = [
    (Learn(1.5, 7, 32768, ("ops",)), "learn", "9501cb3ff800000000000007cd800091a36f7073"),
    (Share(1.5, 7, (b"s",), ("x",)), "share", "9502cb3ff80000000000000791c4017391a178"),
    (
        Consolidate(1.5, 7, 0.5, 3, 1, 2, "r"),
        "consolidate",
        "9803cb3ff800000000000007cb3fe0000000000000030102a172",
    ),
    (Rescore(1.5, 7, 0.5, 3, 1, 2, "r"), "rescore", "9804cb3ff800000000000007cb3fe0000000000000030102a172"),
    (
        Outcome(1.5, 7, 0.5, 3, 4, 1, 2, 9, "c", b"e"),
        "outcome",
        "9c05cb3ff800000000000007cb3fe00000000000000304010209a163c40165c2",
    ),
    (
        Outcome(1.5, 7, 0.5, 3, 4, 1, 2, 9, "", b"", True),
        "confirm",
        "9c05cb3ff800000000000007cb3fe00000000000000304010209a0c400c3",
    ),
    (
        RecallHit(1.5, 7, b"e", 4, 0.5, FrameName.TASK, "c"),
        "recall_hit",
        "9906cb3ff800000000000007c4016504cb3fe000000000000003a163a0",
    ),
    (
        RecallHit(1.5, 7, b"e", 4, 0.5, FrameName.OTHER, "c", "f"),
        "recall_hit",
        "9906cb3ff800000000000007c4016504cb3fe000000000000005a163a166",
    ),
    (Connect(1.5, 7, 2, 3), "connect", "9507cb3ff8000000000000070203"),
    (Linked(1.5, 7, (2, 4), (3, 5), True), "linked", "9611cb3ff800000000000007920204920305c3"),
    (
        Counted(1.5, 7, 1, 2, 3, 4, 0.5, -1.0),
        "counted",
        "9a1ecb3ff80000000000000701020304cb3fe0000000000000cbbff0000000000000c3",
    ),
    (Imported(1.5, 7, 0, 3, b"e"), "imported", "961fcb3ff8000000000000070003c40165"),
]
HOME: list[tuple[Event, str, str]] = [
    (Incarnation(1.5, 7, b"i", "copied"), "incarnation", "9520cb3ff800000000000007c40169a6636f70696564"),
    (Trust(1.5, 7, b"p", 3, True, "y", "w"), "trust", "9821cb3ff800000000000007c4017003c3a179a177"),
    (Forgot(1.5, 7, 4, 9, 5), "forgot", "9622cb3ff800000000000007040905"),
    (ImportSource(1.5, 7, 0, b"o", b"i", "x"), "import_source", "9728cb3ff80000000000000700c4016fc40169a178"),
    (Import(1.5, 7, b"f", 0.5), "import", "9529cb3ff800000000000007c40166cb3fe0000000000000"),
    (ImportedTrust(1.5, 7, 0, 3, b"e", True), "imported_trust", "972acb3ff8000000000000070003c40165c3"),
]


@pytest.mark.parametrize(("event", "kind", "golden"), OWN + HOME, ids=[kind for _, kind, _ in OWN + HOME])
def test_the_bytes_in_the_log_are_fixed(event: Event, kind: str, golden: str) -> None:
    """Logs written by one version are read by the next: these bytes must not change."""
    assert events.encode(event).hex() == golden
    assert events.kind_of(event) == kind
    decode = events.decode_own if (event, kind, golden) in OWN else events.decode_home
    assert decode(bytes.fromhex(golden)) == event


def test_a_forgetting_from_before_it_told_the_last_use_is_still_read() -> None:
    """Such a log does not say when the memory was last used."""
    assert events.decode_home(bytes.fromhex("9522cb3ff8000000000000070409")) == Forgot(1.5, 7, 4, 9, -1)


def test_a_hit_from_before_frames_had_names_of_their_own_is_still_read() -> None:
    """Such a log knows the four frames and no others."""
    before = bytes.fromhex("9806cb3ff800000000000007c4016504cb3fe000000000000003a163")
    assert events.decode_own(before) == RecallHit(1.5, 7, b"e", 4, 0.5, FrameName.TASK, "c", "")


def test_a_later_version_may_add_fields_at_the_end() -> None:
    """What this version does not know at the end of an event is passed over."""
    longer = bytes.fromhex("9607cb3ff8000000000000070203a3") + b"new"
    assert events.decode_own(longer) == Connect(1.5, 7, 2, 3)


@pytest.mark.parametrize(
    "payload", [b"", b"\xc1", b"\x91\x07", b"\x95\x63\x00\x00\x00\x00", b"\x93\x20\x00\x00"]
)
def test_what_is_not_an_event_is_refused(payload: bytes) -> None:
    """Empty, broken, cut short, of an unknown kind, of the other sort: an error that says so."""
    with pytest.raises(EventError, match="not an event"):
        events.decode_own(payload)


def test_an_event_about_a_block_is_not_one_about_the_home() -> None:
    """The two sorts do not stand in for each other."""
    with pytest.raises(EventError, match="about the home"):
        events.decode_home(events.encode(Connect(0.0, 0, 1, 1)))
