"""How spaces and feeds are named on NATS. Pure: `sync/BUS.md`, "Subjects", gives the same for other
readers.

Ids are base32 in lower case without padding: subject tokens may hold nothing else that survives every tool,
and the server's texts about refused subjects come in lower case.
"""

from base64 import b32decode, b32encode

from loremesh.sync.busport import FrameSubject

__all__ = [
    "announcements",
    "feed_subject",
    "heads",
    "inbox_prefix",
    "may_be_answered",
    "parse_frame_subject",
    "questions",
    "stream_name",
    "stream_subjects",
    "token",
]

ROOT = "lm.1"
"""Name and version of this layout."""
INBOX = "_LM"
"""Root of the private inboxes; replies under the shared `_INBOX.>` would be readable by every user."""


def token(raw: bytes) -> str:
    """An id as one subject token."""
    return b32encode(raw).decode().rstrip("=").lower()


def _raw(text: str) -> bytes:
    return b32decode(text.upper() + "=" * (-len(text) % 8))


def stream_name(space: bytes) -> str:
    """The JetStream stream that keeps a space's frames."""
    return f"LM_{token(space)}"


def stream_subjects(space: bytes) -> str:
    """Everything the stream captures: the frames, and nothing else."""
    return f"{ROOT}.{token(space)}.f.>"


def announcements(space: bytes) -> str:
    """Where the server repeats each frame it has stored, with its number in the headers."""
    return f"{ROOT}.{token(space)}.w.>"


def heads(space: bytes) -> str:
    """Where the space's nodes broadcast their heads."""
    return f"{ROOT}.{token(space)}.h"


def questions(space: bytes, origin: bytes | None) -> str:
    """Where a peer is asked for frames; None stands for every peer of the space."""
    return f"{ROOT}.{token(space)}.q.{'*' if origin is None else token(origin)}"


def feed_subject(subject: FrameSubject) -> str:
    """The subject of one chain of one feed."""
    return (
        f"{ROOT}.{token(subject.space)}.f."
        f"{token(subject.origin)}.{token(subject.incarnation)}.{subject.chain}"
    )


def parse_frame_subject(text: str) -> FrameSubject | None:
    """The reverse of `feed_subject`; None for what cannot be one (anybody may publish oddities)."""
    parts = text.split(".")
    if len(parts) != 7 or ".".join(parts[:2]) != ROOT or parts[3] != "f" or parts[6] not in ("0", "1"):
        return None
    try:
        space, origin, incarnation = _raw(parts[2]), _raw(parts[4]), _raw(parts[5])
    except ValueError:
        return None
    if (len(space), len(origin), len(incarnation)) != (32, 32, 16):
        return None
    return FrameSubject(space, origin, incarnation, int(parts[6]))


def inbox_prefix(user_public: str) -> str:
    """The inbox root of one NATS user (its public nkey): only that user may listen there."""
    return f"{INBOX}.{user_public}"


def may_be_answered(reply: str) -> bool:
    """Whether a reply subject is an inbox.

    Answering anything else would let an asker make us publish on a subject of its choice, our own feed's
    included.
    """
    return reply.startswith((f"{INBOX}.", "_INBOX."))
