"""What train.py and evaluate.py share: the text, the tokenizer and the four configurations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    BloomConfig,
    GPT2Config,
    LlamaConfig,
    PreTrainedConfig,
    PreTrainedTokenizerFast,
    XGLMConfig,
)

HELD_OUT = "northanger-abbey"

LENGTH = 128
WIDTH = 128
LAYERS = 4
HEADS = 4

# XGLM gives its pad id a second meaning: that row of the position table is zero. As published the
# id is 1, a row that no position reads (they start at row 2). So the special tokens come first, as
# in XGLM, and byte b is id FIRST_BYTE + b, in all four models alike.
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
FIRST_BYTE = len(SPECIAL)
VOCAB = FIRST_BYTE + 256
BOS, PAD, EOS = 0, 1, 2


def read_bytes(path: Path) -> torch.Tensor:
    """The ids of a file's bytes; what the tokenizer gives for its text, without the detour."""
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8).long() + FIRST_BYTE


def training_texts(folder: Path) -> list[torch.Tensor]:
    """Every novel but the held-out one, in the order of their names."""
    texts = [read_bytes(path) for path in sorted(folder.glob("*.txt")) if path.stem != HELD_OUT]
    if not texts:
        raise SystemExit(f"{folder}: no training text (*.txt other than {HELD_OUT}.txt)")
    return texts


def held_out_text(folder: Path) -> torch.Tensor:
    path = folder / f"{HELD_OUT}.txt"
    if not path.is_file():
        raise SystemExit(f"{path}: the held-out text is missing")
    return read_bytes(path)


def byte_characters() -> list[str]:
    """GPT-2's character for each byte: printable Latin-1 is itself, the rest is U+0100 and on."""
    itself = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = iter(range(0x100, 0x200))
    return [chr(byte if byte in itself else next(moved)) for byte in range(256)]


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One id per byte, no merges. Nothing goes in front: the models are trained without <s>."""
    vocab = {token: i for i, token in enumerate((*SPECIAL, *byte_characters()))}
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        pad_token="<pad>",
        eos_token="</s>",
        unk_token="<unk>",
        model_max_length=LENGTH,
        clean_up_tokenization_spaces=False,
    )


def _rope() -> PreTrainedConfig:
    return LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        # A gated MLP has three matrices, the others have two: 344 is two thirds of 512, in eights.
        intermediate_size=344,
        max_position_embeddings=LENGTH,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        tie_word_embeddings=True,
        bos_token_id=BOS,
        pad_token_id=PAD,
        eos_token_id=EOS,
    )


def _learned() -> PreTrainedConfig:
    return GPT2Config(
        vocab_size=VOCAB,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        n_positions=LENGTH,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        pad_token_id=PAD,
        eos_token_id=EOS,
    )


def _alibi() -> PreTrainedConfig:
    return BloomConfig(
        vocab_size=VOCAB,
        hidden_size=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        # No class reads this key: published BLOOM configs record the trained length with it.
        seq_length=LENGTH,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        pad_token_id=PAD,
        eos_token_id=EOS,
    )


def _sinusoidal() -> PreTrainedConfig:
    return XGLMConfig(
        vocab_size=VOCAB,
        d_model=WIDTH,
        num_layers=LAYERS,
        attention_heads=HEADS,
        ffn_dim=4 * WIDTH,
        max_position_embeddings=LENGTH,
        scale_embedding=True,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        layerdrop=0.0,
        tie_word_embeddings=True,
        bos_token_id=BOS,
        pad_token_id=PAD,
        eos_token_id=EOS,
    )


CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = {
    "rope": _rope,
    "learned": _learned,
    "alibi": _alibi,
    "sinusoidal": _sinusoidal,
}

# What a family was mostly published in; the four plain models two and two, so that a reader meets both.
STORED_AS: dict[str, torch.dtype] = {
    "rope": torch.bfloat16,
    "learned": torch.float16,
    "alibi": torch.bfloat16,
    "sinusoidal": torch.float16,
    "rope-yarn": torch.bfloat16,
}
