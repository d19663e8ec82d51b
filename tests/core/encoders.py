"""A sentence encoder for tests: the module `sentence_transformers`, whose models add up a vector for each word."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SIZE = 6


class SentenceTransformer:
    """Reads a folder with the file size.txt. The vector of a word depends on its letters alone."""

    def __init__(self, folder: str, device: str, local_files_only: bool) -> None:
        assert local_files_only
        self.size, self.device = int((Path(folder) / "size.txt").read_text()), device

    def encode(self, texts: list[str], batch_size: int, convert_to_numpy: bool, show_progress_bar: bool) -> np.ndarray:
        assert batch_size
        assert convert_to_numpy
        assert not show_progress_bar
        assert len(set(texts)) == len(texts)
        vectors = np.stack([sum(self.word(word) for word in text.split()) for text in texts])
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    def word(self, word: str) -> np.ndarray:
        return np.random.default_rng([ord(letter) for letter in word]).normal(size=self.size)


def write_encoder(folder: Path) -> Path:
    """Write a model of this encoder to a folder, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "size.txt").write_text(str(SIZE))
    return folder


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kgcal import this encoder as sentence_transformers."""
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
