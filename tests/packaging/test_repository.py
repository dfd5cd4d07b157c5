"""What is tracked reads the same on every machine, and every module fits in the head."""

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES_MAX = 500

# Spelled in pieces, so that this file does not hold what it looks for.
REGISTRIES = (r"pypi\." + "org", r"python" + r"hosted\.", r"npm" + r"js\.", r"[a-z0-9.-]+\.jfrog" + r"\.io")
MACHINE_PATHS = ("work/", "root/", "tmp/bash_" + "jobs", "opt/pypi", "opt/wheels")
REGISTRY = re.compile("|".join(REGISTRIES))
MACHINE_PATH = re.compile(r"(?<![\w.~}/-])/(?:" + "|".join(MACHINE_PATHS) + ")")
INDEX_OPTION = re.compile(r"--(?:extra-)?index-" + r"url|--find-" + "links")


@cache
def tracked_texts() -> dict[str, str]:
    """Every tracked file that is text, by its path in the repository."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    texts = {}
    for name in filter(None, listing.stdout.split("\0")):
        if (ROOT / name).is_file():
            body = (ROOT / name).read_bytes()
            if b"\0" not in body:
                texts[name] = body.decode("utf-8")
    return texts


def places(pattern: re.Pattern[str]) -> list[str]:
    """Every `file:line: match` of the pattern among the tracked texts."""
    return [
        f"{name}:{number}: {found.group()}"
        for name, text in tracked_texts().items()
        for number, line in enumerate(text.splitlines(), start=1)
        for found in pattern.finditer(line)
    ]


def test_no_file_names_a_package_registry() -> None:
    """Where packages come from is the machine's setting, not the repository's."""
    assert places(REGISTRY) + places(INDEX_OPTION) == []


def test_no_file_holds_a_path_of_one_machine() -> None:
    """A path that exists on one machine only breaks the project on every other."""
    assert places(MACHINE_PATH) == []


def test_the_patterns_find_what_they_are_for() -> None:
    """The two tests above fail when a registry or a machine's path is planted."""
    assert REGISTRY.search("https://files.python" + "hosted.example/x")
    assert REGISTRY.search("https://pypi" + ".org/simple")
    for path in ("/wo" + "rk/main/x", "/ro" + "ot/.cache", "/tmp/bash" + "_jobs.0/1"):
        assert MACHINE_PATH.search(f'path = "{path}"'), path


def test_no_module_is_longer_than_fits_in_the_head() -> None:
    """Past 500 lines a module is two things."""
    lengths = {n: len(t.splitlines()) for n, t in tracked_texts().items() if n.endswith(".py")}
    assert {name: count for name, count in lengths.items() if count > LINES_MAX} == {}
