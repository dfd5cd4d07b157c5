"""Own state laid down and taken up again, and compared: for the checkpoint and for `replay --check`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from loremesh.node.columns import Exported, OwnColumns, OwnViews
from loremesh.node.decisions import Decisions, Trail
from loremesh.node.firsthand import FirstHand
from loremesh.node.history import History, Tally
from loremesh.node.imported import FromFiles
from loremesh.node.links import Links
from loremesh.node.order import LearningOrder
from loremesh.node.ownstate import RECENT, Episode, OwnState
from loremesh.node.raters import Raters
from loremesh.node.rules import RuleSet
from loremesh.node.tiers import Tier, Tiers
from loremesh.sync.registers import Registers
from loremesh.sync.rows import Contexts
from loremesh.sync.trust import PeerTrust

COLUMNS: Final = "columns."
REGISTERS: Final = "registers."
HISTORY: Final = "history."
LEARNED: Final = "learned."
LINKS: Final = "links."
TALLY: Final = "tally."
RECENT_PARTS: Final = "recent."
RATERS: Final = "raters."
IMPORTED: Final = "imported"
REST: Final = "rest"


class _Rest(msgspec.Struct, frozen=True):
    """What of the state is not a column. `labels` are those of the contexts that own registers have."""

    rules: str
    origin: bytes
    incarnation: bytes
    version: int
    hour: float
    wall_ms: int
    labels: dict[int, str]
    tags: dict[int, tuple[str, ...]]
    shared: dict[int, list[bytes]]
    peers: dict[bytes, PeerTrust]
    episodes: list[tuple[bytes, Episode]]
    fits: dict[str, tuple[float, ...]] = {}
    decisions: list[tuple[int, Trail]] = []
    tiers: list[tuple[int, Tier]] = []
    raters: list[str] = []
    multipliers: dict[str, int] = {}


def export_state(state: OwnState) -> Exported:
    """Everything the state holds, copied: numpy columns and one piece of MessagePack, by name."""
    registers = state.registers.export()
    history = state.history.export(state.columns.length)
    tally = {} if state.tally is None else state.tally.export()
    recent = state.recent.export()
    used = np.unique(np.concatenate([part["context"] for part in (registers, recent, tally) if part]))
    rest = _Rest(
        rules=state.rules.name,
        origin=state.firsthand.origin,
        incarnation=state.firsthand.incarnation,
        version=state.firsthand.version,
        hour=state.hour,
        wall_ms=state.wall_ms,
        labels={index: state.contexts.label(index) for index in used.tolist()},
        tags=state.tags,
        shared={row: sorted(spaces) for row, spaces in state.shared.items()},
        peers=state.peers,
        episodes=list(state.episodes.items()),
        fits=state.fits,
        decisions=state.decisions.export(),
        tiers=state.tiers.export(),
        raters=state.raters.names(),
        multipliers=state.raters.multipliers,
    )
    return {
        **{COLUMNS + name: column for name, column in state.columns.export().items()},
        **{REGISTERS + name: column for name, column in registers.items()},
        **{HISTORY + name: column for name, column in history.items()},
        **{LINKS + name: column for name, column in state.links.export().items()},
        **{LEARNED + name: column for name, column in state.learned.export().items()},
        **{TALLY + name: column for name, column in tally.items()},
        **{RECENT_PARTS + name: column for name, column in recent.items()},
        **{RATERS + name: column for name, column in state.raters.export().items()},
        IMPORTED: state.imported.export(state.contexts),
        REST: msgspec.msgpack.encode(rest),
    }


def load_state(
    exported: Mapping[str, NDArray[np.generic] | bytes], contexts: Contexts, rules: RuleSet
) -> OwnState:
    """What `export_state` gave, again; labels it uses are entered into `contexts`.

    Raises ValueError for an export that does not hang together or was folded under other rules.
    """
    try:
        rest = msgspec.msgpack.decode(bytes(exported[REST]), type=_Rest)
    except (KeyError, msgspec.DecodeError) as error:
        raise ValueError(f"own state cannot be taken up: {error!r}") from error
    if rest.rules != rules.name:
        raise ValueError(f"own state was folded under the rules {rest.rules}, not {rules.name}")
    state = OwnState(rest.origin, contexts, rules)
    state.columns = OwnColumns.load(_part(exported, COLUMNS))
    state.firsthand = FirstHand.load(
        rest.origin,
        _registers(_part(exported, REGISTERS), rest.labels, contexts),
        rest.incarnation,
        rest.version,
    )
    state.history = History.load(rules.history, _part(exported, HISTORY))
    state.links = Links.load(_part(exported, LINKS))
    state.learned = LearningOrder.load(_part(exported, LEARNED))
    if state.tally is not None:
        state.tally = Tally.load(rules.utility, _tally(_part(exported, TALLY), rest.labels, contexts))
    state.recent = Tally.load(RECENT, _tally(_part(exported, RECENT_PARTS), rest.labels, contexts))
    state.decisions = Decisions(rest.decisions)
    state.tiers = Tiers(rest.tiers)
    state.raters = Raters.load(rest.raters, rest.multipliers, _part(exported, RATERS))
    state.imported = FromFiles.load(bytes(exported.get(IMPORTED, b"")), contexts)
    state.hour, state.wall_ms = rest.hour, rest.wall_ms
    state.tags, state.peers = rest.tags, rest.peers
    state.shared = {row: set(spaces) for row, spaces in rest.shared.items()}
    state.episodes = dict(rest.episodes)
    state.fits = rest.fits
    return state


def differences(left: OwnState, right: OwnState) -> list[str]:
    """What is not the same in two folds, in words; empty when they are equal bit for bit.

    Contexts are compared by label. Of the episodes only those that both still hold are compared: which old
    ones went first depends on episodes that have been forgotten since.
    """
    found = _column_differences(left, right)
    if _comparable(left, right) != _comparable(right, left):
        found.append("own registers differ")
    found += _memory_differences(left, right)
    if _remembered(left, left.recent) != _remembered(right, right.recent):
        found.append("the recent window of outcomes differs")
    if left.decisions.export() != right.decisions.export():
        found.append("decisions differ")
    if left.raters.told() != right.raters.told():
        found.append("ratings by rater differ")
    if _linked(left) != _linked(right):
        found.append("links differ")
    if left.tiers.export() != right.tiers.export():
        found.append("summaries differ")
    if _learned(left) != _learned(right):
        found.append("the order of learning differs")
    if left.imported.export(left.contexts) != right.imported.export(right.contexts):
        found.append("what came from files differs")
    mine, theirs = left.firsthand, right.firsthand
    for name, here, there in (
        ("incarnation", mine.incarnation.hex(), theirs.incarnation.hex()),
        ("evidence counter", mine.version, theirs.version),
        ("hour", left.hour, right.hour),
        ("wall_ms", left.wall_ms, right.wall_ms),
    ):
        if here != there:
            found.append(f"{name} is {here} and {there}")
    for name in ("tags", "shared", "peers", "fits"):
        if getattr(left, name) != getattr(right, name):
            found.append(f"{name} differ")
    both = left.episodes.keys() & right.episodes.keys()
    apart = sorted(key.hex() for key in both if left.episodes[key] != right.episodes[key])
    if apart:
        found.append(f"{len(apart)} episodes differ, the first is {apart[0]}")
    return found


def _column_differences(left: OwnState, right: OwnState) -> list[str]:
    length = max(left.columns.length, right.columns.length)
    here, there = left.columns.views(length), right.columns.views(length)
    found = []
    for name in OwnViews.__struct_fields__:
        mine, theirs = getattr(here, name), getattr(there, name)
        word = np.dtype(f"u{mine.dtype.itemsize}")  # the bits, so that NaN equals itself
        rows = np.flatnonzero(mine.view(word) != theirs.view(word))
        if len(rows):
            row = int(rows[0])
            found.append(
                f"column {name} differs in {len(rows)} rows, first {row}: {mine[row]} and {theirs[row]}"
            )
    return found


def _memory_differences(left: OwnState, right: OwnState) -> list[str]:
    """What the rules remember and what of it is not the same; contexts by label."""
    if left.rules.name != right.rules.name:
        return [f"the rules are {left.rules.name} and {right.rules.name}"]
    length = max(left.columns.length, right.columns.length)
    here, there = left.history.export(length), right.history.export(length)
    found = [
        f"what the rules remember as {name} differs"
        for name in here
        if here[name].tobytes() != there[name].tobytes()
    ]
    if _remembered(left, left.tally) != _remembered(right, right.tally):
        found.append("what the utility model remembers differs")
    return found


def _learned(state: OwnState) -> list[bytes]:
    """What was learned when, in order, to the bit."""
    return [column.tobytes() for column in state.learned.export().values()]


def _linked(state: OwnState) -> list[bytes]:
    """What holds of which two blocks, and whose neighbours were looked for."""
    return [column.tobytes() for column in state.links.export().values()]


def _remembered(state: OwnState, tally: Tally | None) -> list[tuple[int, str, bytes]]:
    """What a utility model remembers, by row and label."""
    exported = {} if tally is None else tally.export()
    if not exported:
        return []
    rows, contexts = exported.pop("row").tolist(), exported.pop("context").tolist()
    memos = np.array(list(exported.values())).T
    return sorted(
        (row, state.contexts.label(context), memo.tobytes())
        for row, context, memo in zip(rows, contexts, memos, strict=True)
    )


def _comparable(state: OwnState, other: OwnState) -> list[bytes]:
    """Own registers in an order, and with contexts numbered, as both states agree on."""
    registers = state.registers
    held = registers.held(registers.live())
    labels = sorted({*state.contexts.labels(), *other.contexts.labels()})
    number = {label: i for i, label in enumerate(labels)}
    context = np.array([number[label] for label in state.contexts.labels()])[held.context]
    names = sorted(registers.sources)
    source = np.array([names.index(source) for source in registers.sources], np.int64)[held.source]
    order = np.lexsort((context, held.row, source))
    columns = (source, held.row, context, held.alpha, held.beta, held.stability_h, held.version, held.stamp_h)
    return [msgspec.msgpack.encode(names), *(column[order].tobytes() for column in columns)]


def _registers(part: Exported, labels: dict[int, str], contexts: Contexts) -> Registers:
    """The table with its contexts renumbered to those of this home, in the order the table asks for."""
    try:
        source, row, context = (np.asarray(part[name]) for name in ("source", "row", "context"))
        renumbered = np.array([contexts.ensure(labels[index]) for index in context.tolist()], context.dtype)
        order = np.lexsort((renumbered, row, source))
        columns = {name: column[order] for name, column in part.items() if isinstance(column, np.ndarray)}
        return Registers.load({**part, **columns, "context": renumbered[order]})
    except KeyError as error:
        raise ValueError(f"own registers cannot be taken up: {error} is missing") from error


def _tally(part: Exported, labels: dict[int, str], contexts: Contexts) -> Exported:
    """The table of the utility model with its contexts renumbered to those of this home."""
    try:
        context = np.asarray(part["context"])
        renumbered = np.array([contexts.ensure(labels[index]) for index in context.tolist()], np.int64)
    except KeyError as error:
        raise ValueError(f"what the utility model remembers lacks {error}") from error
    return {**part, "context": renumbered}


def _part(exported: Mapping[str, NDArray[np.generic] | bytes], prefix: str) -> Exported:
    return {name[len(prefix) :]: value for name, value in exported.items() if name.startswith(prefix)}
