"""Bodies of the data chain: evidence (columnar) and blocks (`sync/README.md`, "Bodies").

Encoding and decoding check the same bounds: what this node encodes, every receiver decodes.
"""

import operator
import struct

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.sync.content import block_id, check_text, context_label
from loremesh.sync.errors import InvalidInput, Malformed
from loremesh.sync.wire import ID_BYTES, INCARNATION_BYTES, decoded

MAX_ROWS = 2048
"""Of an evidence frame: at 68 bytes a row and full tables it stays below `MAX_BODY_BYTES` in every case."""
MAX_FRAME_CONTEXTS = 256
"""Distinct labels in one evidence frame: what one byte can index."""
MAX_BLOCK_CONTEXTS = 64
"""Contexts of one block and origin (DESIGN §1)."""
MAX_FRAME_INCARNATIONS = 64
"""Incarnations that one evidence frame states rows of; also the bound per origin."""
MAX_TEXTS = 2048
"""Texts in a blocks frame."""
MAX_FX = 1 << 36
"""Mass of a register, 2²⁰ in units of 2⁻¹⁶ (DESIGN §4)."""


class Evidence(msgspec.Struct, frozen=True, eq=False):
    """The rows of an evidence frame, columnar: n rows over tables of ids, labels and incarnations.

    Rows ascend strictly by (block, context, incarnation) as indexes, so that each register stands once.
    Every entry of a table is used by a row.
    """

    ids: list[bytes]
    """Distinct block ids, ascending."""
    contexts: list[str]
    """Distinct labels, ascending by code point; '' is none given."""
    incarnations: list[bytes]
    """Distinct incarnations of the frame's origin, ascending."""
    block: NDArray[np.int64]
    """Index into `ids`, [n]; on the wire u16."""
    context: NDArray[np.int64]
    """Index into `contexts`, [n]; u8."""
    incarnation: NDArray[np.int64]
    """Index into `incarnations`, [n]; u8."""
    alpha: NDArray[np.int64]
    """Positive evidence in units of 2⁻¹⁶, [n]; u64."""
    beta: NDArray[np.int64]
    """Negative evidence in units of 2⁻¹⁶, [n]; u64."""
    stability_h: NDArray[np.float64]
    """S in active hours, [n]; binary64."""
    version: NDArray[np.int64]
    """The incarnation's evidence counter when the register last changed, from 1, [n]; u64."""


class _EvidenceBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    ids: bytes
    contexts: list[str]
    incarnations: bytes
    block: bytes
    context: bytes
    incarnation: bytes
    alpha: bytes
    beta: bytes
    stability_h: bytes
    version: bytes


_evidence_decoder = msgspec.msgpack.Decoder(_EvidenceBody)
_COLUMNS = {
    "block": ">u2",
    "context": ">u1",
    "incarnation": ">u1",
    "alpha": ">u8",
    "beta": ">u8",
    "stability_h": ">f8",
    "version": ">u8",
}


def encode_evidence(evidence: Evidence) -> bytes:
    """The body of an evidence frame. Raises `InvalidInput` for rows that a receiver would refuse."""
    try:
        _check_lengths("evidence.ids", evidence.ids, ID_BYTES)
        _check_lengths("evidence.incarnations", evidence.incarnations, INCARNATION_BYTES)
        _check_rows(evidence)
    except Malformed as wrong:
        raise InvalidInput(wrong.field, wrong.reason) from None
    columns = {name: getattr(evidence, name).astype(dtype).tobytes() for name, dtype in _COLUMNS.items()}
    return msgspec.msgpack.encode(
        _EvidenceBody(b"".join(evidence.ids), evidence.contexts, b"".join(evidence.incarnations), **columns)
    )


def decode_evidence(body: bytes) -> Evidence:
    """The rows in `body`, every bound checked. Raises `Malformed` naming the field."""
    raw = decoded(_evidence_decoder, body, "evidence")
    rows = len(raw.context)
    if not 0 < rows <= MAX_ROWS:
        raise Malformed("evidence.context", f"has {rows} rows; a frame has 1 to {MAX_ROWS}")
    evidence = Evidence(
        _slices(raw.ids, ID_BYTES, "evidence.ids"),
        raw.contexts,
        _slices(raw.incarnations, INCARNATION_BYTES, "evidence.incarnations"),
        _integers("block", raw.block, rows),
        _integers("context", raw.context, rows),
        _integers("incarnation", raw.incarnation, rows),
        _integers("alpha", raw.alpha, rows),
        _integers("beta", raw.beta, rows),
        _column("stability_h", raw.stability_h, rows).astype(np.float64),
        _integers("version", raw.version, rows),
    )
    _check_rows(evidence)
    return evidence


def _column(name: str, data: bytes, rows: int) -> NDArray[np.generic]:
    dtype = np.dtype(_COLUMNS[name])
    if len(data) != rows * dtype.itemsize:
        raise Malformed(f"evidence.{name}", f"has {len(data)} bytes for {rows} rows")
    return np.frombuffer(data, dtype)


def _integers(name: str, data: bytes, rows: int) -> NDArray[np.int64]:
    # A u64 of 2⁶³ and above turns negative here, which the checks refuse.
    return _column(name, data, rows).astype(np.int64)


def _slices(data: bytes, size: int, field: str) -> list[bytes]:
    if len(data) % size:
        raise Malformed(field, f"has {len(data)} bytes, no multiple of {size}")
    if len(data) > MAX_ROWS * size:
        raise Malformed(field, f"has {len(data) // size} entries; 1 to {MAX_ROWS} are allowed")
    return list(struct.unpack(f"{size}s" * (len(data) // size), data))  # four times as fast as slicing


def _check_rows(evidence: Evidence) -> None:
    """Raise `Malformed` naming the first field out of bounds."""
    block, context, incarnation = evidence.block, evidence.context, evidence.incarnation
    rows = len(block)
    if not 0 < rows <= MAX_ROWS or any(len(getattr(evidence, name)) != rows for name in _COLUMNS):
        raise Malformed("evidence", f"must have 1 to {MAX_ROWS} rows and columns of one length")
    _check_table("evidence.ids", evidence.ids, block, MAX_ROWS)
    if not any(evidence.ids[0]):
        raise Malformed("evidence.ids", "has zeros for an id, which is no SHA-256 of anything")
    _check_table("evidence.contexts", evidence.contexts, context, MAX_FRAME_CONTEXTS)
    _check_table("evidence.incarnations", evidence.incarnations, incarnation, MAX_FRAME_INCARNATIONS)
    _check_labels(evidence.contexts)
    order = (block * MAX_FRAME_CONTEXTS + context) * MAX_FRAME_INCARNATIONS + incarnation
    if bool((order[1:] <= order[:-1]).any()):
        raise Malformed("evidence.block", "rows must ascend by block, context and incarnation, each once")
    if len(evidence.contexts) > MAX_BLOCK_CONTEXTS:
        pairs = np.unique(block * MAX_FRAME_CONTEXTS + context) // MAX_FRAME_CONTEXTS
        if int(np.bincount(pairs).max()) > MAX_BLOCK_CONTEXTS:
            raise Malformed("evidence.context", f"has more than {MAX_BLOCK_CONTEXTS} contexts of one block")
    for name in ("alpha", "beta"):
        column: NDArray[np.int64] = getattr(evidence, name)
        if int(column.min()) < 0 or int(column.max()) > MAX_FX:
            at = int(np.argmax((column < 0) | (column > MAX_FX)))
            raise Malformed(f"evidence.{name}", f"in row {at} is not within 0 … 2³⁶ (mass 2²⁰)")
    if int((evidence.alpha + evidence.beta).max()) > MAX_FX:
        at = int((evidence.alpha + evidence.beta).argmax())
        raise Malformed("evidence.alpha", f"and beta in row {at} sum to more than mass 2²⁰")
    good = np.isfinite(evidence.stability_h) & ~np.signbit(evidence.stability_h)
    if not bool(good.all()):
        at = int(np.argmin(good))
        raise Malformed(
            "evidence.stability_h", f"in row {at} is {evidence.stability_h[at]}, not finite and ≥ 0"
        )
    if int(evidence.version.min()) < 1:
        at = int(evidence.version.argmin())
        raise Malformed("evidence.version", f"in row {at} is not within 1 … 2⁶³−1")


def _check_table(field: str, table: list[bytes] | list[str], index: NDArray[np.int64], bound: int) -> None:
    size = len(table)
    if not 0 < size <= bound:
        raise Malformed(field, f"has {size} entries; 1 to {bound} are allowed")
    if any(map(operator.ge, table, table[1:])):
        raise Malformed(field, "must be distinct and ascending")
    if int(index.min()) < 0 or int(index.max()) >= size:
        raise Malformed(field, f"has {size} entries, and a row points outside them")
    if not bool(np.bincount(index, minlength=size).all()):
        raise Malformed(field, "has an entry that no row uses")


def _check_lengths(field: str, table: list[bytes], size: int) -> None:
    if any(len(one) != size for one in table):
        raise Malformed(field, f"must have {size} bytes each")


def _check_labels(labels: list[str]) -> None:
    for label in labels:
        try:
            normal = context_label(label, "evidence.contexts")
        except InvalidInput as wrong:
            raise Malformed(wrong.field, wrong.reason) from None
        if normal != label:
            raise Malformed("evidence.contexts", f"has {label!a}, which is not in normal form")


class Blocks(msgspec.Struct, frozen=True):
    """The texts of a blocks frame with the ids that they have, in the frame's order."""

    texts: list[str]
    ids: list[bytes]
    """Computed here from the texts: a sender cannot state them."""


class _BlocksBody(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    texts: list[str]


_blocks_decoder = msgspec.msgpack.Decoder(_BlocksBody)


def encode_blocks(texts: list[str]) -> bytes:
    """The body of a blocks frame. Raises `InvalidInput` for texts that a receiver would refuse."""
    try:
        _checked_blocks(texts)
    except Malformed as wrong:
        raise InvalidInput(wrong.field, wrong.reason) from None
    return msgspec.msgpack.encode(_BlocksBody(texts))


def decode_blocks(body: bytes) -> Blocks:
    """The texts in `body`, each within the bounds of a block, no block twice. Raises `Malformed`."""
    return _checked_blocks(decoded(_blocks_decoder, body, "blocks").texts)


def _checked_blocks(texts: list[str]) -> Blocks:
    if not 0 < len(texts) <= MAX_TEXTS:
        raise Malformed("blocks.texts", f"has {len(texts)} texts; a frame has 1 to {MAX_TEXTS}")
    try:
        for at, text in enumerate(texts):
            check_text(text, f"blocks.texts[{at}]")
    except InvalidInput as wrong:
        raise Malformed(wrong.field, wrong.reason) from None
    ids = [block_id(text) for text in texts]
    if len(set(ids)) != len(ids):
        raise Malformed("blocks.texts", "has one block twice")
    return Blocks(texts, ids)
