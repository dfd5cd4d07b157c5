"""The demonstration: the main job on real input, with a hostile peer, as a stranger's first experience."""

from loremesh.node.demo.demonstration import run

__all__ = ["run"]
