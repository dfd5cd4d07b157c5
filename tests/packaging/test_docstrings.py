"""Examples in docstrings say what the code does today."""

import doctest
import importlib
import pkgutil

import loremesh.crypto
import loremesh.node
import loremesh.sync


def test_every_module_imports_and_its_examples_hold() -> None:
    """Every module can be imported by itself, and each of its docstring examples prints what it says."""
    failed = []
    for package in (loremesh.crypto, loremesh.sync, loremesh.node):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith(".__main__"):
                module = importlib.import_module(found.name)
                if doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed:
                    failed.append(found.name)
    assert failed == []
