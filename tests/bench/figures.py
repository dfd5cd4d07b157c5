"""What a bench reports: figures beside their targets, and the machine that they were measured on."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import sqlite3
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

import msgspec
import numpy as np

BLAS_VARIABLES: Final = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Settings that choose other kernels than OpenBLAS would; they are named when they are set."""


class Figure(msgspec.Struct, frozen=True):
    """One measured thing. `met` is None where there is no target."""

    what: str
    value: str
    target: str = ""
    met: bool | None = None


class Report(msgspec.Struct, frozen=True):
    """The figures of one bench. `how` says what was measured against what."""

    title: str
    how: str
    figures: list[Figure]


def at_most(what: str, value: float, bound: float, unit: str) -> Figure:
    """A figure that should not be above `bound`."""
    return Figure(what, f"{value:.2f} {unit}".strip(), f"at most {bound:g} {unit}".strip(), value <= bound)


def at_least(what: str, value: float, bound: float, unit: str) -> Figure:
    """A figure that should not be below `bound`."""
    return Figure(what, f"{value:.2f} {unit}".strip(), f"at least {bound:g} {unit}".strip(), value >= bound)


def table(report: Report) -> str:
    """The report as people read it in a terminal."""
    width = max(len(figure.what) for figure in report.figures)
    values = max(len(figure.value) for figure in report.figures)
    lines = [report.title]
    for figure in report.figures:
        verdict = "" if figure.met is None else "  met" if figure.met else "  MISSED"
        target = f"  ({figure.target})" if figure.target else ""
        lines.append(f"  {figure.what:<{width}}  {figure.value:>{values}}{target}{verdict}")
    return "\n".join(lines)


def markdown(report: Report, command: str) -> str:
    """The report as a section of RESULTS.md."""
    lines = [f"## {report.title}", "", report.how, "", f"`{command}`", ""]
    lines += ["| what | figure | target | |", "|---|---:|---|---|"]
    for figure in report.figures:
        verdict = "" if figure.met is None else "met" if figure.met else "**missed**"
        lines.append(f"| {figure.what} | {figure.value} | {figure.target} | {verdict} |")
    return "\n".join([*lines, ""])


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    started = perf_counter()
    work()
    return perf_counter() - started


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies."""
    return float(np.percentile(np.array(values), 100.0 * share))


def machine() -> list[str]:
    """The machine and the builds, in lines of text."""
    blas = [f"{name}={os.environ[name]}" for name in BLAS_VARIABLES if name in os.environ]
    return [
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        f"{platform.python_implementation()} {platform.python_version()}, numpy {np.__version__}, "
        f"SQLite {sqlite3.sqlite_version}, "
        + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("cryptography", "tantivy")),
        f"BLAS kernels: {blas_kernel()}" + (f" (chosen by {', '.join(blas)})" if blas else ""),
        f"{os.getloadavg()[0]:.1f} processes ran or waited to run, on average over the minute before",
    ]


def blas_kernel() -> str:
    """Which kernels OpenBLAS chose, and how many threads; "unknown" for another BLAS."""
    for path in Path(np.__file__).parent.parent.glob("numpy.libs/libscipy_openblas*"):
        library = ctypes.CDLL(str(path))
        name, threads = library.scipy_openblas_get_corename64_, library.scipy_openblas_get_num_threads64_
        name.restype = ctypes.c_char_p
        return f"OpenBLAS {name().decode()}, {threads()} threads"
    return "unknown"


def resident_mb(peak: bool = False) -> float:
    """Memory of this process that is in RAM, in MB of 10⁶ bytes; with `peak` the most it ever was.

    Raises OSError where there is no /proc.
    """
    wanted = "VmHWM:" if peak else "VmRSS:"
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(wanted):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"no {wanted} in /proc/self/status")


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "processor unknown"
