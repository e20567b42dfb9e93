# SPDX-License-Identifier: Apache-2.0
"""Tokenizers of the package `tokenizers`, built from the keys of a GGUF file as llama.cpp reads them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from locant import _locant
from locant._locant import SpecError

# What splits a text before merges, one expression after the other; what stands between matches is a piece of its own.
# llama.cpp, src/llama-vocab.cpp.
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}" + _REST
QWEN2 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}" + _REST
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CASED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+"
_UPPERED = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
_SLASHED = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT4O = rf"{_CASED}{_CONTRACTIONS}?|{_UPPERED}{_CONTRACTIONS}?|\p{{N}}{{1,3}}" + _SLASHED
TEKKEN = rf"{_CASED}|{_UPPERED}|\p{{N}}" + _SLASHED
DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")
FALCON = (r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]")
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"

SPLITS: dict[str, tuple[str, ...]] = {
    "default": DEFAULT,
    "falcon": FALCON,
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo", "jais", "exaone4", "modern-bert", "gigachat", "mellum"), (GPT2,)),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone"), (r"\p{N}", GPT2)),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "dbrx", "smaug-bpe"), (LLAMA3,)),
    **dict.fromkeys(("glm4", "chatglm-bpe", "lfm2", "pixtral"), (LLAMA3,)),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez"), (QWEN2,)),
    **dict.fromkeys(("gpt-4o", "llama4"), (GPT4O,)),
    "tekken": (TEKKEN,),
    **dict.fromkeys(("bloom", "gpt3-finnish"), (BLOOM,)),
}
"""tokenizer.ggml.pre -> expressions."""

WHOLE_FIRST = {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2", "tekken"}
"""Kinds that take a piece as one token where the vocabulary has it, whatever the merges say."""

BEGIN_BY_DEFAULT = {"llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "lfm2", "tekken"}
"""Kinds with a token in front where no key says so."""

_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4
_SPACE = "▁"


def open_gguf(path: str | os.PathLike[str]) -> Any:
    """A tokenizers.Tokenizer for kinds "gpt2" and "bert". SpecError for others and for an unknown pre-tokenizer."""
    keys = _locant.gguf_values(os.fspath(path), "tokenizer.ggml.")
    kind = keys.get("model")
    if kind == "gpt2":
        return _byte_pairs(keys)
    if kind == "bert":
        return _word_pieces(keys)
    raise SpecError(f"text: tokenizers are built for .gguf vocabularies of kind gpt2 and bert, got {kind}; use --ids")


def _required(keys: Mapping[str, Any], key: str) -> Any:
    if key not in keys:
        raise SpecError(f"text: the .gguf vocabulary needs tokenizer.ggml.{key}; use --ids")
    return keys[key]


def _id(keys: Mapping[str, Any], tokens: list[str], *names: str) -> int | None:
    """The id under the first of these keys that is there and names a token."""
    for name in names:
        value = keys.get(name)
        if isinstance(value, int) and 0 <= value < len(tokens):
            return value
    return None


def _types(keys: Mapping[str, Any], tokens: list[str]) -> list[int]:
    types = keys.get("token_type")
    if types is None:
        return [1] * len(tokens)
    if len(types) != len(tokens):
        raise SpecError(f"text: tokenizer.ggml.token_type has {len(types)} values for {len(tokens)} tokens")
    return list(types)


def _add_special(tokenizer: Any, tokens: list[str], types: list[int]) -> None:
    from tokenizers import AddedToken

    def those_of(*wanted: int) -> list[Any]:
        special = wanted != (_USER_DEFINED,)
        return [
            AddedToken(token, special=special, normalized=False)
            for token, kind in zip(tokens, types, strict=True)
            if kind in wanted and token
        ]

    tokenizer.add_special_tokens(those_of(_CONTROL, _UNKNOWN))
    tokenizer.add_tokens(those_of(_USER_DEFINED))


def _frame(tokenizer: Any, tokens: list[str], front: int | None, back: int | None) -> None:
    """One token in front, one behind, where they are asked for."""
    from tokenizers.processors import TemplateProcessing

    used = [token for token in (front, back) if token is not None]
    if not used:
        return
    words = [*(["B:0"] if front is not None else []), "$A:0", *(["E:0"] if back is not None else [])]
    named = [(name, token) for name, token in (("B", front), ("E", back)) if token is not None]
    tokenizer.post_processor = TemplateProcessing(
        single=" ".join(words),
        pair=None,
        special_tokens=[{"id": name, "ids": [token], "tokens": [tokens[token]]} for name, token in named],
    )


def _byte_pairs(keys: Mapping[str, Any]) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    tokens = list(_required(keys, "tokens"))
    pre = keys.get("pre", "default")
    if pre not in SPLITS:
        known = ", ".join(sorted(SPLITS))
        raise SpecError(
            f"text: tokenizer.ggml.pre is a pre-tokenizer that locant knows ({known}), got {pre}; use --ids"
        )
    merges: list[tuple[str, str]] = []
    for merge in _required(keys, "merges"):
        left, space, right = merge.partition(" ")
        if not left:  # a left part that begins with a space
            left, space, right = (" " + part for part in merge[1:].partition(" "))
            space, right = space[1:], right[1:]
        if not space:
            raise SpecError(f"text: a merge is two pieces with a space between, got {merge!r}")
        merges.append((left, right))
    vocab = {token: id for id, token in enumerate(tokens)}
    try:
        model = models.BPE(vocab, merges, ignore_merges=pre in WHOLE_FIRST)
    except Exception as error:  # the package raises Exception itself
        raise SpecError(f"text: tokenizer.ggml.merges: {error}") from error
    tokenizer = Tokenizer(model)
    splits: list[Any] = [pre_tokenizers.Split(Regex(one), "isolated") for one in SPLITS[pre]]
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=bool(keys.get("add_space_prefix", False)), use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*splits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    _add_special(tokenizer, tokens, _types(keys, tokens))
    begins = keys.get("add_bos_token", pre in BEGIN_BY_DEFAULT)
    ends = keys.get("add_eos_token", False)
    front = _id(keys, tokens, "bos_token_id") if begins else None
    back = _id(keys, tokens, "eos_token_id") if ends else None
    _frame(tokenizer, tokens, front, back)
    return tokenizer


def _word_pieces(keys: Mapping[str, Any]) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    stored = list(_required(keys, "tokens"))
    types = _types(keys, stored)
    # a word's first piece is stored behind U+2581, a later one as it is
    tokens = [
        token if kind != 1 else token[1:] if token.startswith(_SPACE) else f"##{token}"
        for token, kind in zip(stored, types, strict=True)
    ]
    unknown = _id(keys, tokens, "unknown_token_id")
    vocab = {token: id for id, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token=tokens[unknown] if unknown is not None else "[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    _add_special(tokenizer, tokens, types)
    front = _id(keys, tokens, "cls_token_id", "bos_token_id")
    back = _id(keys, tokens, "seperator_token_id", "separator_token_id", "eos_token_id")
    _frame(tokenizer, tokens, front, back)
    return tokenizer
