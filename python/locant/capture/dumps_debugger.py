# SPDX-License-Identifier: Apache-2.0
"""The directory of transformers' model_addition_debugger_context: one file for each tensor, named by module path.

What a module with children gives is not in it, so that a layer's output is what the next one takes, and that of an
attention what its last projection gives.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import safe_open

from locant.capture.recorder import Recorder, dtype_named

FILE = re.compile(r"(?P<path>.+?)_(?P<side>inputs|outputs)(?:_(?P<rest>.*))?")
LAYER = r"(?:layers|h|blocks?)\.(\d+)"
ATTENTION = r"(?:self_attn|attn|attention|self_attention)"
# (path behind the class, side and rest) -> canonical; \1 is the layer
NAMES = [
    (r"", "inputs_kwargs_input_ids", "input_ids"),
    (r"", "inputs_args_0", "input_ids"),
    (r"(?:model|transformer)", "inputs_kwargs_input_ids", "input_ids"),
    (r"(?:.*\.)?(?:embed_tokens|wte|word_embeddings|embed_in)", "outputs", "embed.tokens"),
    (r"(?:.*\.)?(?:wpe|embed_positions|position_embeddings)", "outputs", "embed.positions"),
    (r"(?:.*\.)?token_type_embeddings", "outputs", "embed.types"),
    (r"(?:.*\.)?rotary_emb", "outputs_0", "rope.cos"),
    (r"(?:.*\.)?rotary_emb", "outputs_1", "rope.sin"),
    (rf".*?\b{LAYER}\.{ATTENTION}(?:\.\w+)*\.(?:o_proj|out_proj|dense|c_proj)", "outputs", r"layers.\1.attn.out"),
    (r"(?:.*\.)?(?:norm|ln_f|final_layer_norm|final_layernorm)", "outputs", "final_norm.out"),
    (r"(?:lm_head|embed_out|output)", "inputs_args_0", "final_norm.out"),
    (r"(?:lm_head|embed_out|output)", "outputs", "logits"),
    (r"", "outputs_logits", "logits"),
    (r"", "inputs_kwargs_attention_mask", "attention_mask"),
    (r"(?:.*\.)?rotary_emb", "inputs_kwargs_position_ids", "position_ids"),
    (r"(?:.*\.)?rotary_emb", "inputs_args_1", "position_ids"),
    (rf".*?\b{LAYER}", "inputs_kwargs_position_ids", "position_ids"),
]
STARTS = re.compile(rf".*?\b{LAYER}")
PROJECTION = re.compile(rf".*?\b{LAYER}\.{ATTENTION}\.([qkv])_(proj|norm)")


@dataclass
class _Dump:
    folder: Path
    name: str
    """Of the model's class."""
    files: dict[tuple[str, str], Path] = field(default_factory=dict)
    """(module path behind the class, side and rest)."""
    used: set[tuple[str, str]] = field(default_factory=set)

    def tensor(self, key: tuple[str, str]) -> Any:
        self.used.add(key)
        path = self.files[key]
        try:
            with safe_open(path, "np") as file:
                return file.get_tensor("data")
        except TypeError:  # numpy has no bf16
            with safe_open(path, "pt") as file:
                return file.get_tensor("data")


def load_debugger(folder: Path, model: Path | None) -> Recorder:
    """ValueError where tensors are text in a tree, not files."""
    dump = _read(folder)
    recorder = Recorder("transformers model_addition_debugger_context", dump.name, step=0)
    for pattern, side, canonical in NAMES:
        for key in sorted(dump.files):
            match = re.fullmatch(pattern, key[0])
            if match is not None and key[1] == side:
                _put(recorder, dump, match.expand(canonical), key)
    _put_states(recorder, dump)
    _put_heads(recorder, dump, _heads(model))
    state = recorder.get("embed.out") if recorder.get("embed.out") is not None else recorder.get("logits")
    recorder.dtype = "f32" if state is None else dtype_named(state.dtype)
    recorder.left_out += _unused(dump)
    return recorder


def _read(folder: Path) -> _Dump:
    tree = sorted(folder.glob("*_debug_tree*.json"))[0]
    dump = _Dump(folder, json.loads(tree.read_text())["module_path"].partition(".")[0])
    for path in sorted(folder.glob("*.safetensors")):
        match = FILE.fullmatch(path.stem)
        if match is None or match["path"].partition(".")[0] != dump.name:
            continue
        rest = f"_{match['rest']}" if match["rest"] else ""
        dump.files[match["path"].partition(".")[2], match["side"] + rest] = path
    if not dump.files:
        raise ValueError(f"dumps: {folder} must hold tensors as files, written with use_repr=False; it has none")
    return dump


def _put(recorder: Recorder, dump: _Dump, canonical: str, key: tuple[str, str]) -> None:
    tensor = dump.tensor(key)
    ranks = {"attention_mask": 2, "input_ids": 2, "position_ids": 2}
    if len(tensor.shape) == ranks.get(canonical, 3):
        ids = recorder.get("input_ids")
        if ids is not None and canonical.startswith("embed.") and tensor.shape[0] == 1:  # one row for all
            tensor = tensor[[0] * ids.shape[0]]
        recorder.put(canonical, tensor, dump.files[key].stem)
    else:
        dump.used.discard(key)


def _put_states(recorder: Recorder, dump: _Dump) -> None:
    """Each layer leaves what the next one takes, or the final norm."""
    takes: dict[int, tuple[str, str]] = {}
    for path, side in dump.files:
        match = STARTS.fullmatch(path)
        if match is not None and side in ("inputs_args_0", "inputs_kwargs_hidden_states"):
            takes[int(match[1])] = (path, side)
    if 0 in takes:
        _put(recorder, dump, "embed.out", takes[0])
    for layer in takes:
        if layer and layer - 1 in takes:
            _put(recorder, dump, f"layers.{layer - 1}.out", takes[layer])
    for key in dump.files:
        if takes and re.fullmatch(r"(?:.*\.)?(?:norm|ln_f|final_layer_norm|final_layernorm)", key[0]):
            inside = STARTS.match(key[0]) is not None
            if key[1] == "inputs_args_0" and not inside:
                _put(recorder, dump, f"layers.{max(takes)}.out", key)


def _heads(model: Path | None) -> dict[str, int]:
    """Heads of q, k and v by a config."""
    if model is None:
        return {}
    path = model / "config.json" if model.is_dir() else model
    config = json.loads(path.read_text())
    config = config.get("text_config", config)
    heads = int(config.get("num_attention_heads") or config.get("n_head") or 0)
    if not heads:
        raise ValueError(f"dumps: {path} must state num_attention_heads, it does not")
    kv = int(config.get("num_key_value_heads") or heads)
    return {"q": heads, "k": kv, "v": kv}


def _put_heads(recorder: Recorder, dump: _Dump, heads: dict[str, int]) -> None:
    """q and k as the rotation takes them: behind their norms, where there are some."""
    found: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
    for key in dump.files:
        match = PROJECTION.fullmatch(key[0])
        if match is not None and key[1] == "outputs":
            found.setdefault((match[1], match[2]), {})[match[3]] = key
    turned = recorder.get("rope.cos") is not None
    for (layer, word), made in sorted(found.items()):
        name = "v" if word == "v" else f"{word}_pre"
        if word != "v" and not turned:
            continue
        key = made.get("norm") or made["proj"]
        tensor = dump.tensor(key)
        if len(tensor.shape) == 3 and heads and tensor.shape[-1] % heads[word] == 0:
            tensor = tensor.reshape(*tensor.shape[:2], heads[word], -1)
        if len(tensor.shape) == 4:
            recorder.put(f"layers.{layer}.attn.{name}", tensor, dump.files[key].stem)
        else:
            dump.used.discard(key)


def _unused(dump: _Dump) -> list[str]:
    counted = Counter(
        re.sub(r"\.\d+", ".N", f"{path}_{side}") for path, side in dump.files if (path, side) not in dump.used
    )
    return [f"{name}: {count} without a place in a trace" for name, count in sorted(counted.items())]
