"""The two import contracts of pyproject.toml notice what they are there for."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"loremesh.crypto": "crypto", "loremesh.sync": "sync", "loremesh.node": "node"}


def core_modules() -> list[str]:
    """The modules that the second contract declares free of IO."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts: list[dict[str, Any]] = project["tool"]["importlinter"]["contracts"]
    return [name for contract in contracts for name in contract.get("source_modules", [])]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the three roots with their configuration, to plant violations in."""
    shutil.copyfile(ROOT / "pyproject.toml", tmp_path / "pyproject.toml")
    for folder in FOLDERS.values():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / folder / "loremesh", tmp_path / folder / "loremesh", ignore=ignored)
    return tmp_path


def file_of(module: str, root: Path) -> Path:
    """Where a module, or a package's own code, lives below a root."""
    folder = root / FOLDERS[".".join(module.split(".")[:2])] / Path(*module.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def plant(root: Path, module: str, line: str) -> None:
    """Append one line of code to a module of the copy."""
    with file_of(module, root).open("a") as source:
        source.write(f"\n{line}\n")


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    """Run the contracts over the copy instead of the installed packages."""
    paths = os.pathsep.join(str(root / folder) for folder in FOLDERS.values())
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    env = os.environ | {"PYTHONPATH": paths, "COLUMNS": "200"}
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False)


def test_an_import_against_the_direction_is_found(copy: Path) -> None:
    """`sync` naming `node` breaks the first contract."""
    plant(copy, "loremesh.sync", "import loremesh.node")
    result = lint(copy)
    assert (result.returncode, "not allowed to import loremesh.node" in result.stdout) == (1, True)


def test_io_in_each_core_module_is_found(copy: Path) -> None:
    """Every module on the core's list is really watched: a planted `import time` is reported for each."""
    for module in core_modules():
        plant(copy, module, "import time")
    report = lint(copy).stdout
    assert [name for name in core_modules() if f"{name} is not allowed to import time" not in report] == []


def test_io_behind_another_module_is_found(copy: Path) -> None:
    """A core module that reaches randomness through a module of another layer is reported too."""
    first = core_modules()[0]
    plant(copy, "loremesh.crypto", "import random")
    plant(copy, first, "import loremesh.crypto")
    assert f"{first} is not allowed to import random" in lint(copy).stdout
