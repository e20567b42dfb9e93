# SPDX-License-Identifier: Apache-2.0
"""A one-layer Llama whose logits say what a rotation did: cos and sin of chosen pairs, times the squared amplitude.

A prompt is one key token at position 0 and then one query token again and again; every other key is zero. The share
of the first token in a softmax over p + 1 keys gives back its score, in which q and k meet in one pair alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from peer_cases import Floats

LOUD = 1000.0  # of an embedding, so that the epsilon of a norm is nothing beside it
SCORE = 4.0  # largest score where the amplitude is 1
VOCABULARY = 32
FIRST, REST = 0, 1  # logits of the two sums
Forward = Callable[[list[int]], Floats]


@dataclass(frozen=True)
class Probe:
    """Weights [out, in] in the order of a Llama, heads of `head_dim` channels, the first alone is used."""

    head_dim: int
    heads: int
    pairs: tuple[int, ...]
    interleaved: bool = False
    rotary_dim: int = 0  # 0 = head_dim

    @property
    def hidden(self) -> int:
        return self.head_dim * self.heads

    def channels(self, pair: int) -> tuple[int, int]:
        if self.interleaved:
            return 2 * pair, 2 * pair + 1
        return pair, pair + (self.rotary_dim or self.head_dim) // 2

    def tokens(self, index: int) -> tuple[int, int, int]:
        """Query, key for the cosine, key for the sine, of the pair at that place in `pairs`."""
        return 2 + 3 * index, 3 + 3 * index, 4 + 3 * index

    def embeddings(self) -> Floats:
        if 2 + 3 * len(self.pairs) > VOCABULARY or self.hidden < VOCABULARY + 2:
            raise SystemExit("probe: too many pairs or too few channels")
        return LOUD * np.eye(VOCABULARY, self.hidden, dtype=np.float32)

    def _zeros(self) -> Floats:
        return np.zeros((self.hidden, self.hidden), np.float32)

    def query(self) -> Floats:
        weight = self._zeros()
        for index, pair in enumerate(self.pairs):
            weight[self.channels(pair)[0], self.tokens(index)[0]] = self._gain()
        return weight

    def key(self) -> Floats:
        weight = self._zeros()
        for index, pair in enumerate(self.pairs):
            first, second = self.channels(pair)
            _, cosine, sine = self.tokens(index)
            weight[first, cosine] = weight[second, sine] = self._gain()
        return weight

    def value(self) -> Floats:
        """Head channel 0 for the key tokens, 1 for the query tokens."""
        weight = self._zeros()
        for index in range(len(self.pairs)):
            query, *keys = self.tokens(index)
            weight[1, query] = 1
            weight[0, keys] = 1
        return weight

    def output(self) -> Floats:
        """Head channels 0 and 1 to two hidden channels that no embedding uses."""
        weight = self._zeros()
        weight[VOCABULARY, 0] = weight[VOCABULARY + 1, 1] = LOUD
        return weight

    def lm_head(self) -> Floats:
        weight = np.zeros((VOCABULARY, self.hidden), np.float32)
        weight[FIRST, VOCABULARY] = weight[REST, VOCABULARY + 1] = 1
        return weight

    def _gain(self) -> float:
        """A one-hot row is sqrt(hidden) after the norm; scores are divided by sqrt(head_dim)."""
        return float(np.sqrt(SCORE * np.sqrt(self.head_dim) / self.hidden))

    def measured(self, forward: Forward, positions: list[int]) -> list[list[float]]:
        """[position][cosines, then sines of the pairs], times the squared amplitude. forward: logits [T, V]."""
        columns = []
        for which in (1, 2):
            for index in range(len(self.pairs)):
                query, key = self.tokens(index)[0], self.tokens(index)[which]
                logits = np.asarray(forward([key] + [query] * max(positions)), np.float64)
                if logits.shape != (max(positions) + 1, VOCABULARY):
                    raise SystemExit(f"probe: logits are {logits.shape}")
                columns.append([float(score(logits[p], p)) / SCORE for p in positions])
        return [[float(f"{column[t]:.9g}") for column in columns] for t in range(len(positions))]


def score(logits: NDArray[np.float64], position: int) -> float:
    if logits[FIRST] <= 0 or logits[REST] <= 0:
        raise SystemExit("probe: a share is not above 0")
    return float(np.log(logits[FIRST] / logits[REST] * position))
