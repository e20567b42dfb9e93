# SPDX-License-Identifier: Apache-2.0
"""Ids to text and back: Locant's own readers, and the package `tokenizers` where they cannot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from locant import _locant
from locant._locant import SpecError
from locant.gguf_text import open_gguf


class Tokenizer(Protocol):
    """What every tokenizer here has."""

    @property
    def kind(self) -> str: ...
    @property
    def vocab(self) -> int: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, ids: Sequence[int]) -> str: ...
    def piece(self, id: int) -> str: ...


class HubTokenizer:
    """A tokenizer of the package `tokenizers`."""

    kind = "tokenizers"

    def __init__(self, inner: Any) -> None:
        # A tokenizer.json may state how its author padded and cut batches; a prompt is neither.
        inner.no_padding()
        inner.no_truncation()
        self._inner = inner

    @property
    def vocab(self) -> int:
        return int(self._inner.get_vocab_size(with_added_tokens=True))

    def encode(self, text: str) -> list[int]:
        return list(self._inner.encode(text).ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._inner.decode(list(ids), skip_special_tokens=True))

    def piece(self, id: int) -> str:
        found = self._inner.id_to_token(id)
        return f"<id {id}>" if found is None else str(found)


def open_with_tokenizers(model: str, why_not: str) -> tuple[HubTokenizer | None, str]:
    """A .gguf file's vocabulary, or the tokenizer.json of a folder, through the package `tokenizers`; else the sentence
    that says why not.
    """
    place = Path(model)
    gguf = place.suffix == ".gguf" and place.is_file()
    path = place if gguf else (place.parent if place.is_file() else place) / "tokenizer.json"
    if not path.is_file() or place.suffix == ".bin":
        return None, why_not
    try:
        import tokenizers
    except ImportError:
        return None, f"{why_not} (`pip install tokenizers` brings a reader that can)"
    try:
        return HubTokenizer(open_gguf(path) if gguf else tokenizers.Tokenizer.from_file(str(path))), ""
    except SpecError as error:
        return None, str(error)
    except Exception as error:  # the package raises Exception itself
        return None, f"{path}: {error}"


def open_tokenizer(model: str | os.PathLike[str]) -> Tokenizer:
    """The tokenizer of a model's folder, .gguf or llama2.c .bin file. SpecError with the reason when there is none."""
    path = os.fspath(model)
    native, why_not = _locant.open_tokenizer(path)
    if native is not None and not why_not:
        return native
    other, why_not = open_with_tokenizers(path, why_not)
    if other is None:
        raise SpecError(why_not)
    return other
