"""What a home may ask of language models: calls in any hour, tokens in any day. Counting only; no IO.

Counts are kept by slot (a minute, an hour), and the sum over a sliding window is held against the limit: in
no hour there are more calls than allowed, whichever hour it is. What was spent goes on over a restart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from loremesh.node.errors import Unavailable

CALL_SLOT_MS: Final = 60_000
CALL_SLOTS: Final = 60
TOKEN_SLOT_MS: Final = 3_600_000
TOKEN_SLOTS: Final = 24
"""An hour by the minute, a day by the hour: what was spent frees itself a slot later at most."""

MAX_TOKENS_A_CALL: Final = 10_000_000
"""What a service may say that one call took; more is a slip or a lie, and counts as this."""


class BudgetSpent(Unavailable):
    """The home's budget for language models is used up; the message says until when."""


class Spent(msgspec.Struct, frozen=True, array_like=True):
    """Calls by minute and tokens by hour (numbered since 1970) that still count."""

    calls: dict[int, int] = {}
    tokens: dict[int, int] = {}


class Budget:
    """`calls_per_hour` and `tokens_per_day` of all services together. `now_ms`: wall time."""

    def __init__(
        self,
        calls_per_hour: int,
        tokens_per_day: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._now_ms = now_ms
        self._calls = _Window("calls an hour", calls_per_hour, CALL_SLOT_MS, CALL_SLOTS)
        self._tokens = _Window("tokens a day", tokens_per_day, TOKEN_SLOT_MS, TOKEN_SLOTS)
        self.changed = False
        """Whether anything was spent since `spent` was last asked."""

    def admit(self, tokens: int) -> None:
        """Count one call that may take so many tokens. Raises BudgetSpent, and counts nothing."""
        now_ms = self._now_ms()
        self._calls.check(1, now_ms)
        self._tokens.check(tokens, now_ms)
        self._calls.add(1, now_ms)
        self._tokens.add(tokens, now_ms)
        self.changed = True

    def settle(self, reserved: int, used: int) -> None:
        """The call that `admit` counted `reserved` tokens for took `used`."""
        self._tokens.add(min(max(used, 0), MAX_TOKENS_A_CALL) - reserved, self._now_ms())
        self.changed = True

    def spent(self) -> Spent:
        """What counts now, to go on from after a restart."""
        self.changed = False
        now_ms = self._now_ms()
        return Spent(self._calls.counted(now_ms), self._tokens.counted(now_ms))

    def go_on_from(self, spent: Spent) -> None:
        """Count what was spent before."""
        self._calls.slots = dict(spent.calls)
        self._tokens.slots = dict(spent.tokens)


class _Window:
    """Amounts by slot: the last `count` and the one that has begun are held against a limit."""

    def __init__(self, what: str, limit: int, slot_ms: int, count: int) -> None:
        self.what = what
        self.limit = limit
        self.slot_ms = slot_ms
        self.count = count
        self.slots: dict[int, int] = {}

    def counted(self, now_ms: int) -> dict[int, int]:
        """Slots that count. A clock that was set back leaves some ahead; those within a window count on."""
        now = now_ms // self.slot_ms
        return {slot: n for slot, n in self.slots.items() if abs(now - slot) <= self.count and n}

    def check(self, more: int, now_ms: int) -> None:
        counted = self.counted(now_ms)
        over = sum(counted.values()) + more - self.limit
        if over <= 0:
            return
        if more > self.limit:
            raise BudgetSpent(
                f"one question needs {more} and the budget is {self.limit} {self.what}",
                "raise it under [services] in config.toml",
            )
        for slot in sorted(counted):
            over -= counted[slot]
            if over <= 0:
                break
        wait_min = -(-((slot + self.count + 1) * self.slot_ms - now_ms) // 60_000)
        raise BudgetSpent(
            f"the budget of {self.limit} {self.what} is used up; there is room again in {wait_min} min",
            "wait, or raise it under [services] in config.toml",
        )

    def add(self, more: int, now_ms: int) -> None:
        self.slots = self.counted(now_ms)
        now = now_ms // self.slot_ms
        self.slots[now] = self.slots.get(now, 0) + more
