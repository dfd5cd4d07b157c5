"""Embedders behind the port of `ports.py`: one that works offline, one without a model, one over HTTP."""
