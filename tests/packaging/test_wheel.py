"""The built wheel carries what `import loremesh.…` and the `loremesh` command need, and nothing else."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("loremesh/crypto", "loremesh/sync", "loremesh/node")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel built from a copy of the tracked files, so that no stray file of the work tree helps."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listing.stdout.split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel"]
    build = [*pip, "--no-deps", "--no-build-isolation", "--no-index", "-w", str(out), str(source)]
    subprocess.run(build, check=True, capture_output=True, text=True, timeout=60)
    (built,) = out.glob("loremesh-*.whl")
    with zipfile.ZipFile(built) as archive:
        yield archive


@pytest.mark.parametrize("package", PACKAGES)
def test_the_wheel_holds_the_package_and_its_type_marker(wheel: zipfile.ZipFile, package: str) -> None:
    """Each of the three packages is importable from the wheel and is seen as typed."""
    assert {f"{package}/__init__.py", f"{package}/py.typed"} <= set(wheel.namelist())


def test_the_wheel_holds_every_tracked_module(wheel: zipfile.ZipFile) -> None:
    """No module or data file under the three roots is left out of the wheel."""
    listing = subprocess.run(
        ["git", "ls-files", "crypto/loremesh", "sync/loremesh", "node/loremesh"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    tracked = {name.split("/", 1)[1] for name in listing.stdout.splitlines() if (ROOT / name).is_file()}
    assert tracked <= set(wheel.namelist())


def test_the_namespace_has_no_init_of_its_own(wheel: zipfile.ZipFile) -> None:
    """A `loremesh/__init__.py` would hide two of the three packages."""
    assert "loremesh/__init__.py" not in wheel.namelist()


def test_the_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    """Tests, benches and deployment files stay out."""
    allowed = (*(f"{package}/" for package in PACKAGES), "loremesh-")
    assert [name for name in wheel.namelist() if not name.startswith(allowed)] == []


def test_the_wheel_declares_the_command(wheel: zipfile.ZipFile) -> None:
    """Installing the wheel puts `loremesh` on the path."""
    (name,) = (entry for entry in wheel.namelist() if entry.endswith(".dist-info/entry_points.txt"))
    assert "loremesh = loremesh.node.cli.app:main" in wheel.read(name).decode().splitlines()


def test_the_wheel_carries_the_licence(wheel: zipfile.ZipFile) -> None:
    """The licence text travels with the code."""
    (name,) = (entry for entry in wheel.namelist() if entry.endswith("/LICENSE"))
    assert b"Apache License" in wheel.read(name)
