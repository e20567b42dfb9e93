# SPDX-License-Identifier: Apache-2.0
"""The parts of a transformers model: its stacks of blocks, their attention, and what the parts are called."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

ROTATIONS = (
    "apply_rotary_pos_emb",
    "apply_rotary_pos_emb_interleave",
    "apply_multimodal_rotary_pos_emb",
    "apply_rotary_emb",
)
ROTATING_METHOD = "apply_rotary_position_embeddings"  # RoFormer's
POSITION_TABLES = (
    "wpe",
    "positions_embed",
    "embed_positions",
    "position_embeddings",
    "position_embedding",
    "embed_position",
)
FINAL_NORMS = ("norm", "ln_f", "final_layer_norm", "final_layernorm", "norm_f", "final_norm")
TYPE_TABLES = ("token_type_embeddings",)
QUERIES = ("q_proj", "q", "query", "q_lin", "query_proj")
KEYS = ("k_proj", "k", "key", "k_lin", "key_proj")
FUSED = ("query_key_value", "c_attn", "Wqkv")
CROSS = ("encoder_attn", "EncDecAttention", "crossattention", "cross_attn", "cross_attention")
SINE_FIRST = {"gptj", "codegen"}  # their tables come as sin, cos
# whose attention does not say by is_causal that all tokens see each other
ENCODERS = {"bert", "roberta", "xlm-roberta", "camembert", "t5", "mt5", "umt5", "albert", "electra", "deberta",
            "deberta-v2", "distilbert", "mpnet", "roformer", "nystromformer", "xlm-roberta-xl"}  # fmt: skip


@dataclass(frozen=True)
class Stack:
    """One stack of blocks and what holds it."""

    prefix: str
    """"encoder." where there are two and this is that one."""
    encoder: bool
    whole: nn.Module
    """Whose call is one pass of the stack."""
    stem: nn.Module
    """What holds the blocks."""
    blocks: nn.ModuleList
    config: Any

    @property
    def heads(self) -> int:
        if self.prefix or getattr(self.config, "is_encoder_decoder", False):
            own = getattr(self.config, f"{'encoder' if self.encoder else 'decoder'}_attention_heads", 0)
            if own:
                return int(own)
        for name in ("num_attention_heads", "n_head", "num_heads"):
            if getattr(self.config, name, 0):
                return int(getattr(self.config, name))
        raise ValueError("trace: a config states the number of its attention heads, this one does not")

    @property
    def embedding(self) -> nn.Module:
        """What tokens are looked up in."""
        found: nn.Module = self.whole.get_input_embeddings()
        return found

    @property
    def shared(self) -> bool:
        """Are blocks run again, so that there are fewer of them than layers (ALBERT)?"""
        return len(self.blocks) < int(getattr(self.config, "num_hidden_layers", 0) or 0)


def text_config(model: Any) -> Any:
    config = model.config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def stacks(model: Any) -> list[Stack]:
    """Encoder and decoder, or the only one. ValueError where no list of blocks has attention."""
    both = _both(model)
    if both is not None:
        return [
            _stack(part, part, "encoder." if part is both[0] else "", encoder=part is both[0],
                   config=getattr(part, "config", model.config))
            for part in both
        ]  # fmt: skip
    return [_stack(model, model, "", encoder=_sees_all(model), config=text_config(model))]


def _both(model: Any) -> tuple[nn.Module, nn.Module] | None:
    if not getattr(model.config, "is_encoder_decoder", False) or not hasattr(model, "get_encoder"):
        return None
    try:
        encoder, decoder = model.get_encoder(), model.get_decoder()
    except AttributeError:
        return None
    inside = {id(module) for module in model.modules()}
    if encoder is decoder or not all(isinstance(one, nn.Module) and id(one) in inside for one in (encoder, decoder)):
        return None
    return (encoder, decoder) if all(_layers(one) is not None for one in (encoder, decoder)) else None


def _stack(model: nn.Module, whole: nn.Module, prefix: str, *, encoder: bool, config: Any) -> Stack:
    found = _layers(model)
    if found is None:
        raise ValueError("trace: a model needs a list of blocks with attention, this one has none")
    name, blocks = found
    return Stack(prefix, encoder, whole, model.get_submodule(name.rpartition(".")[0]), blocks, config)


def _layers(model: nn.Module) -> tuple[str, nn.ModuleList] | None:
    """The list of blocks: of all module lists, the one whose members hold the most attention modules."""
    best: tuple[int, str, nn.ModuleList] | None = None
    for name, module in model.named_modules():
        if not isinstance(module, nn.ModuleList) or len(module) == 0 or "vis" in name.lower():
            continue
        count = sum(1 for block in module if attention(block) is not None)
        if count and (best is None or count > best[0]):
            best = (count, name, module)
    return None if best is None else (best[1], best[2])


def _sees_all(model: Any) -> bool:
    """Is the only stack an encoder?"""
    config = text_config(model)
    if getattr(config, "is_decoder", False) or getattr(config, "is_encoder_decoder", False):
        return False
    found = _layers(model)
    inner = attention(found[1][0]) if found is not None else None
    causal = getattr(inner, "is_causal", None)
    return causal is False if causal is not None else getattr(config, "model_type", "") in ENCODERS


def attention(block: nn.Module) -> nn.Module | None:
    """The self-attention of a block: the innermost module that projects."""
    for name, module in block.named_modules():
        last = name.rpartition(".")[2].lower()
        kind = type(module).__name__.lower()
        if "attention" in kind and "cross" not in last and "norm" not in kind and _has_weights(module):
            return _inner(module)
    return None


def cross_attention(block: nn.Module) -> nn.Module | None:
    """The attention of a block to another stack."""
    for name, module in block.named_modules():
        if name.rpartition(".")[2] in CROSS and _has_weights(module):
            return _inner(module)
    return None


def _has_weights(module: nn.Module) -> bool:
    return any(True for _ in module.parameters())


def _inner(module: nn.Module) -> nn.Module:
    for child in _attentions_in(module):
        if any(part in dict(child.named_children()) for part in QUERIES):
            return child
    return module


def _attentions_in(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.modules():
        if child is not module and "attention" in type(child).__name__.lower():
            yield child
