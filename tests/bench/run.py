"""The benches, by name: `python -m tests.bench.run [--write] [NAME]…`, all by default.

`--write` puts the figures into `tests/bench/RESULTS.md`, in place of the earlier ones of the same benches.
"""

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from tests.bench import (
    attribution,
    bulk,
    calibration,
    compacting,
    consolidating,
    costs,
    forgetting,
    importing,
    locomo,
    opening,
    outcomes,
    precision,
    reach,
    recall_score,
    recalling,
    refolding,
    tiers,
    worth,
    writing,
)
from tests.bench.figures import Report, machine, markdown, table

BENCHES: Final[dict[str, Callable[[Path], Awaitable[Report]]]] = {
    "import": importing.measure,
    "recall": recalling.measure,
    "write": writing.measure,
    "open": opening.measure,
    "consolidate": consolidating.measure,
    "bulk": bulk.measure,
    "replay": refolding.measure,
    "costs": costs.measure,
    "score": recall_score.measure,
    "locomo": locomo.both,
    "forgetting": forgetting.measure,
    "reach": reach.measure,
    "worth": worth.measure,
    "attribution": attribution.measure,
    "compacting": compacting.measure,
    "outcomes": outcomes.measure,
    "precision": precision.measure,
    "calibration": calibration.measure,
    "tiers": tiers.measure,
}
RESULTS: Final = Path(__file__).parent / "RESULTS.md"
HEADING: Final = "## "


def command(name: str) -> str:
    """How a bench is run."""
    return f'make bench ARGS="{name}"'


def merged(before: str, preface: str, section: str) -> str:
    """The page with this section in place of the one of the same title, others left as they are."""
    kept = {part.partition("\n")[0]: part for part in before.split("\n" + HEADING)[1:]}
    part = section.removeprefix(HEADING)
    kept[part.partition("\n")[0]] = part
    return preface + "".join("\n" + HEADING + part.rstrip("\n") + "\n" for part in kept.values())


async def main(arguments: list[str]) -> int:
    """Runs what is named, prints it, and fails when a target is missed."""
    names = [name for name in arguments if not name.startswith("-")] or list(BENCHES)
    unknown = sorted({name for name in names if name not in BENCHES} | {*arguments} - {*names, "--write"})
    if unknown:
        print(f"bench: {', '.join(unknown)} is unknown; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    about = machine()
    print("\n".join(about))
    missed = False
    with tempfile.TemporaryDirectory(prefix="loremesh-bench-") as scratch:
        for name in names:
            report = await BENCHES[name](Path(scratch))
            print(f"\n{table(report)}", flush=True)
            missed = missed or any(figure.met is False for figure in report.figures)
            if "--write" in arguments:
                before = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
                preface = PREFACE.format(machine="\n".join(f"- {line}" for line in about))
                RESULTS.write_text(merged(before, preface, markdown(report, command(name))), encoding="utf-8")
    return 1 if missed else 0


PREFACE: Final = """# Measured

By `make bench ARGS="--write"`. Ratios are of both sides measured by turns in one process, so that they hold
on a slower or busier machine; times do not. Medians, unless said otherwise. The last run was on:

{machine}
"""

if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
