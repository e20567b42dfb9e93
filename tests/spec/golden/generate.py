# SPDX-License-Identifier: Apache-2.0
"""What transformers itself makes of configs: tests/spec/golden/*.json and src/spec/hf_defaults.cc.

generate.py writes them, generate.py --check says whether they are what this transformers would write.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import math
import re
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoConfig, PretrainedConfig

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity(50)

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PUBLISHED = ROOT.parent / "shared" / "data" / "hf-configs"

# Long lists of names: families, keys that a configuration class may hold, sizes that run wants stated.
WORDS: dict[str, list[str]] = json.loads((HERE / "words.json").read_text())

# Families whose configuration class transformers has, by the name of their row.
FAMILIES: list[str] = WORDS["families"]
# Classes that share a row but not every default.
ALSO = ["deepseek_v32", "ernie4_5_moe", "xlm-roberta-xl", "camembert"]

# 4096 / 96 heads, half of it: the class's own default has an odd rotation.
ODD = ("glm4_moe",)

# run reads these strictly: a config of theirs must state its sizes.
STRICT = ("bloom", "gpt2", "llama", "xglm")
SIZES: list[str] = WORDS["sizes"]

# Classes that live beside their checkpoints. Their code is the source.
ELSEWHERE: dict[str, dict[str, Any]] = {
    "baichuan": {"tie_word_embeddings": False, "rms_norm_eps": 1e-6},
    "chatglm": {"tie_word_embeddings": False, "layernorm_epsilon": 1e-5},
    "internlm2": {"tie_word_embeddings": False, "rms_norm_eps": 1e-6, "rope_theta": 10000.0},
    "mimo": {"tie_word_embeddings": False, "rms_norm_eps": 1e-6, "sliding_window": 4096, "max_window_layers": 28},
    "minicpm": {"tie_word_embeddings": True, "rms_norm_eps": 1e-6, "rope_theta": 10000.0},
    "molmo": {"tie_word_embeddings": False, "layer_norm_eps": 1e-5},
    "neobert": {"tie_word_embeddings": True, "norm_eps": 1e-6},
    "new": {"tie_word_embeddings": True, "layer_norm_eps": 1e-12, "rope_theta": 10000.0},
    "phi3small": {"tie_word_embeddings": True, "layer_norm_epsilon": 1e-5, "rope_embedding_base": 1e6},
    "qwen": {"tie_word_embeddings": False, "layer_norm_epsilon": 1e-6, "rotary_emb_base": 10000},
}
# What a modeling file reads with a default of its own.
IN_CODE: dict[str, dict[str, Any]] = {
    "qwen3_vl_text": {"mrope_section": [24, 20, 20]},
    "qwen3_vl_moe_text": {"mrope_section": [24, 20, 20]},
    "qwen3_5_text": {"mrope_section": [11, 11, 10]},
    "qwen3_5_moe_text": {"mrope_section": [11, 11, 10]},
    "gemma4_text": {"global_head_dim": 512},
    "mllama_text_model": {"cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38]},
    "nemotron_h": {"num_hidden_layers": 4, "layers_block_type": ["linear_attention", "moe", "full_attention", "mlp"]},
}

KEEP: list[str] = WORDS["keep"]


def text_config(name: str) -> PretrainedConfig:
    config = AutoConfig.for_model(name)
    return config


def class_defaults(name: str) -> dict[str, Any]:
    """The defaults of a configuration class, before its own arithmetic fills in the rest."""
    config = text_config(name)
    fields = getattr(type(config), "__dataclass_fields__", {})
    found: dict[str, Any] = {}
    for key in KEEP:
        if key in fields:
            value = fields[key].default
            if not isinstance(value, (int, float, str, bool, list, tuple, type(None))):
                value = getattr(config, key, None)
        elif key == "tie_word_embeddings":
            value = getattr(config, key, True)
        else:
            continue
        if value is None or (value is False and key != "tie_word_embeddings"):
            continue
        found[key] = list(value) if isinstance(value, tuple) else value
    rope = getattr(config, "rope_parameters", None) or {}
    if "rope_theta" in rope:
        found["rope_theta"] = rope["rope_theta"]
        if rope.get("partial_rotary_factor") not in (None, 1.0):
            found["partial_rotary_factor"] = rope["partial_rotary_factor"]
        if rope.get("rope_type", "default") not in ("default", "axial"):
            found["rope_parameters"] = {key: value for key, value in rope.items() if key != "max_position_embeddings"}
    elif name in ("gemma3_text", "gemma3n_text", "olmo3"):
        found["rope_theta"] = rope["full_attention"]["rope_theta"]
        found["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
    elif name.startswith("modernbert"):
        found["global_rope_theta"] = rope["full_attention"]["rope_theta"]
        found["local_rope_theta"] = rope["sliding_attention"]["rope_theta"]
    elif name == "mimo_v2_flash":
        found["rope_theta"] = rope["full_attention"]["rope_theta"]
        found["swa_rope_theta"] = rope["sliding_attention"]["rope_theta"]
        found["partial_rotary_factor"] = rope["full_attention"]["partial_rotary_factor"]
    elif name == "gemma4_text":
        found["rope_parameters"] = rope
    if name in STRICT:
        found = {key: value for key, value in found.items() if key not in SIZES}
    found.update(IN_CODE.get(name, {}))
    return found


def defaults_source() -> str:
    rows = {name: class_defaults(name) for name in FAMILIES + ALSO} | ELSEWHERE
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// What the configuration classes of transformers take for absent keys, and those of classes that live",
        "// beside their checkpoints. Written by tests/spec/golden/generate.py.",
        "#include <algorithm>",
        "#include <array>",
        "",
        '#include "spec/hf_family.h"',
        "",
        "namespace locant {",
        "namespace {",
        "",
        "struct Row {",
        "  std::string_view name;",
        "  std::string_view defaults;",
        "};",
        "",
        "// clang-format off",
        "constexpr std::array kRows = {",
    ]
    for name in sorted(rows):
        text = json.dumps(rows[name], separators=(", ", ": "))
        wrapped = textwrap.wrap(text, width=100, break_long_words=False, break_on_hyphens=False)
        lines.append(f'    Row{{"{name}",')
        lines.append('        R"(' + ("\n        ".join(wrapped)) + ')"},')
    lines += [
        "};",
        "// clang-format on",
        "",
        "}  // namespace",
        "",
        "std::string_view hf_defaults(std::string_view name) noexcept {",
        "  const auto* const found =",
        "      std::find_if(kRows.begin(), kRows.end(), [&](const Row& row) { return row.name == name; });",
        "  return found == kRows.end() ? std::string_view() : found->defaults;",
        "}",
        "",
        "}  // namespace locant",
        "",
    ]
    return "\n".join(lines)


# ---------------------------------------------------------------------------------------------------------
# Facts of one config


def modeling(config: PretrainedConfig) -> Any:
    module = type(config).__module__.replace("configuration_", "modeling_")
    for candidate in (
        module,
        re.sub(r"exaone\.modeling_exaone$|internlm3\.modeling_internlm3$", "llama.modeling_llama", module),
    ):
        try:
            return importlib.import_module(candidate)
        except ModuleNotFoundError:
            continue
    return None


def classes(module: Any, ending: str) -> list[type]:
    found = [
        cls
        for name, cls in vars(module).items()
        if inspect.isclass(cls) and name.endswith(ending) and cls.__module__ == module.__name__
    ]
    skipped = ("Vision", "Audio", "Encoder", "Image", "Patch", "Indexer", "Compressor", "Cross", "Sampler")
    if not module.__name__.endswith("pixtral"):  # a vision tower and nothing else
        found = [cls for cls in found if not any(word in cls.__name__ for word in skipped)]
    return sorted(found, key=lambda cls: "Text" not in cls.__name__)


def rounded(values: torch.Tensor) -> list[float]:
    return [float(f"{value:.9g}") for value in values.detach().double().tolist()]


def rotary(config: PretrainedConfig, module: Any) -> torch.nn.Module | None:
    for cls in classes(module, "RotaryEmbedding"):
        try:
            return cls(config)
        except Exception:
            continue
    return None


def schedules(config: PretrainedConfig, module: torch.nn.Module, layer: str) -> list[dict[str, Any]] | None:
    """inv_freq and amplitude after texts of several lengths."""
    prefix = f"{layer}_" if hasattr(module, f"{layer}_inv_freq") else ""
    if not hasattr(module, f"{prefix}inv_freq"):
        return None
    rope = getattr(config, "rope_parameters", None) or {}
    if prefix:
        rope = rope.get(layer) or {}
    kind = rope.get("rope_type", "default")
    lengths = [0]
    if kind in ("dynamic", "longrope") and not rope.get("alpha"):
        edge = int(rope.get("original_max_position_embeddings") or config.max_position_embeddings)
        longest = int(config.max_position_embeddings)
        lengths = sorted({1, edge, edge + 1, 2 * longest, 8 * longest})
    rows = []
    for seen in lengths:
        amplitude = getattr(module, f"{prefix}attention_scaling", getattr(module, "attention_scaling", 1.0))
        if seen:
            arguments = (layer,) if prefix else ()
            cos, sin = module(torch.zeros(1, 1, 8), torch.full((1, 1), seen - 1), *arguments)
            del sin
            if "long_mscale" in rope:
                amplitude = rope["long_mscale" if seen > rope["original_max_position_embeddings"] else "short_mscale"]
            del cos
        # PhiMoE's forward pass always computes from the short factors, whatever its buffer holds.
        table = (
            module.rope_init_fn(config)[0]
            if config.model_type == "phimoe" and kind == "longrope"
            else getattr(module, f"{prefix}inv_freq")
        )
        rows.append({"seen": seen, "inv_freq": rounded(table), "amplitude": float(f"{float(amplitude):.9g}")})
    return rows


def pairing(config: PretrainedConfig, module: Any) -> str | None:
    source = inspect.getsource(module)
    if "apply_rotary_pos_emb_interleave" in source:
        return "permuting" if getattr(config, "rope_interleave", True) else "half"
    if "view_as_complex" in source or "rotate_every_two" in source:
        return "interleaved"
    body = re.search(r"def rotate_half_llm\(.*?\n(?=\S)", source, re.S) or re.search(
        r"def rotate_half\(.*?\n(?=\S)", source, re.S
    )
    if not body:
        return None
    return "interleaved" if "::2" in body.group(0) else "half"


NO_ROTATION = {
    "jamba",
    "nemotron_h",
    "kimi_linear",
    "bloom",
    "mpt",
    "gpt2",
    "gpt_neo",
    "gpt_bigcode",
    "opt",
    "xglm",
    "ctrl",
    "xlnet",
    "bert",
    "albert",
    "electra",
    "distilbert",
    "roberta",
    "xlm-roberta",
    "camembert",
    "megatron-bert",
    "deberta",
    "deberta-v2",
    "t5",
    "mt5",
    "umt5",
    "bart",
    "mbart",
    "pegasus",
    "marian",
    "m2m_100",
    "whisper",
    "biogpt",
    "git",
    "clap_text_model",
    "wavlm",
    "xlm-roberta-xl",
}
OTHER_LAYERS = ("linear_attention", "conv", "mamba", "moe", "mlp")


def rotates(config: PretrainedConfig, layer: int, kind: str) -> bool:
    """As the attention classes decide it in their forward pass."""
    family = config.model_type
    if family in NO_ROTATION or kind in OTHER_LAYERS or (family == "falcon" and config.alibi):
        return False
    if family in ("llama4_text", "smollm3"):
        return bool(config.no_rope_layers[layer])
    if family == "cohere2":
        return kind == "sliding_attention"
    if family == "exaone4":
        return config.sliding_window is None or kind == "sliding_attention"
    if family == "mllama_text_model":
        return layer not in config.cross_attention_layers
    return True


def attention(config: PretrainedConfig, module: Any, layer: int) -> dict[str, Any]:
    """Scale and window of one layer's attention module, built without memory."""
    endings = ("Attention", "SelfAttention", "LatentAttention")
    for cls in [found for ending in endings for found in classes(module, ending)]:
        for arguments in ({"config": config, "layer_idx": layer}, {"config": config}):
            try:
                with torch.device("meta"):
                    built = cls(**arguments)
            except Exception:
                continue
            facts: dict[str, Any] = {}
            scale = getattr(built, "scaling", None)
            if isinstance(scale, (int, float)):
                facts["scale"] = float(f"{scale:.9g}")
            cap = getattr(built, "attn_logit_softcapping", None)
            if cap is not None:
                facts["softcap"] = float(cap)
            return facts
    return {}


WHOLE_WINDOWS = ("mistral", "mixtral", "ministral3", "phi3", "phi4_multimodal", "phimoe", "starcoder2", "qwen3_moe")


def window(config: PretrainedConfig, layer: int, kind: str) -> dict[str, Any]:
    if kind == "chunked_attention":
        return {"kind": "chunk", "window": config.attention_chunk_size}
    width = getattr(config, "sliding_window", None)
    if config.model_type in WHOLE_WINDOWS and width:
        return {"kind": "window", "window": width}
    if kind == "sliding_attention" and width:
        return {"kind": "window", "window": width}
    if config.model_type == "gpt_neo" and config.attention_layers[layer] == "local":
        return {"kind": "window", "window": config.window_size}
    if config.model_type == "deepseek_v4":
        return {"kind": "window", "window": config.sliding_window}
    return {"kind": "full", "window": 0}


def scales(config: PretrainedConfig) -> dict[str, float]:
    """As the forward passes apply them to embeddings and logits."""
    family, width = config.model_type, float(getattr(config, "hidden_size", 0) or 0)
    embedding, head = 1.0, 1.0
    if family.startswith("gemma") or getattr(config, "scale_embedding", False) or family == "ctrl":
        embedding = math.sqrt(width)
    embedding = float(getattr(config, "embedding_multiplier", None) or getattr(config, "scale_emb", None) or embedding)
    if getattr(config, "logit_scale", None) is not None:
        head = float(config.logit_scale)
    elif getattr(config, "logits_scaling", None):
        head = 1 / float(config.logits_scaling)
    if family in ("t5", "umt5") and config.scale_decoder_outputs:
        head = width**-0.5
    cap = getattr(config, "final_logit_softcapping", None) or 0.0
    return {"embedding_scale": float(f"{embedding:.9g}"), "head_scale": float(f"{head:.9g}"), "head_softcap": cap}


def layer_count(config: PretrainedConfig) -> int:
    for key in ("decoder_layers", "num_decoder_layers"):
        if getattr(config, "is_encoder_decoder", False) and getattr(config, key, None):
            return int(getattr(config, key))
    return int(config.num_hidden_layers)


def rotation_label(config: PretrainedConfig, kind: str) -> str:
    if config.model_type == "deepseek_v4":
        return "main" if kind == "sliding_attention" else "compress"
    return kind


def facts(config: PretrainedConfig) -> dict[str, Any]:
    module = modeling(config)
    count = layer_count(config)
    types = list(getattr(config, "layer_types", None) or ["full_attention"] * count)[:count]
    turning = rotary(config, module) if module is not None and config.model_type not in NO_ROTATION else None
    kinds: list[dict[str, Any]] = []
    layers: list[int] = []
    attentions: dict[str, dict[str, Any]] = {}
    known: dict[str, list[dict[str, Any]] | None] = {}
    for layer, kind in enumerate(types):
        if kind not in attentions:
            attentions[kind] = attention(config, module, layer) if module and kind not in OTHER_LAYERS else {}
        one: dict[str, Any] = {"rotates": rotates(config, layer, kind)}
        one.update(window(config, layer, kind))
        if not getattr(config, "is_encoder_decoder", False):
            one.update(attentions[kind])
        label = rotation_label(config, kind)
        if one["rotates"] and turning is not None:
            if label not in known:
                known[label] = schedules(config, turning, label)
            one["schedules"] = known[label]
            one["pairing"] = pairing(config, module)
        elif one["rotates"] and config.model_type in ("gptj", "codegen"):
            # As create_sinusoidal_positions of both computes it.
            width = config.rotary_dim or config.hidden_size
            table = 1.0 / (10000 ** (torch.arange(0, width, 2, dtype=torch.int64) / width))
            one["schedules"] = [{"seen": 0, "inv_freq": rounded(table), "amplitude": 1.0}]
            one["pairing"] = pairing(config, module)
        if one not in kinds:
            kinds.append(one)
        layers.append(kinds.index(one))
    tied = getattr(config, "tie_word_embeddings", None)
    found: dict[str, Any] = {"layers": layers, "kinds": kinds, "tied": tied, **scales(config)}
    for ours, theirs in (("vocab", "vocab_size"), ("hidden", "hidden_size")):
        found[ours] = getattr(config, theirs, None)
    return found


def text_of(config: PretrainedConfig) -> PretrainedConfig:
    if config.model_type in ("bart", "mbart", "t5", "mt5", "umt5", "pegasus", "marian", "m2m_100", "whisper"):
        return config
    inner = getattr(config, "text_config", None)
    return inner if isinstance(inner, PretrainedConfig) else config


# ---------------------------------------------------------------------------------------------------------
# The cases

SCALINGS: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 3.5},
    "dynamic": {"rope_type": "dynamic", "factor": 2.5},
    "yarn": {"rope_type": "yarn", "factor": 6.0, "original_max_position_embeddings": 700},
    "yarn-mscale": {
        "rope_type": "yarn",
        "factor": 40,
        "original_max_position_embeddings": 512,
        "mscale": 0.707,
        "mscale_all_dim": 1.3,
        "beta_fast": 20,
        "beta_slow": 2,
    },
    "yarn-real-edges": {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": 512,
        "truncate": False,
        "attention_factor": 1.1,
    },
    "yarn-extrapolation": {
        "rope_type": "yarn",
        "factor": 8.0,
        "original_max_position_embeddings": 512,
        "extrapolation_factor": 0.5,
    },
    "yarn-equal-edges": {
        "rope_type": "yarn",
        "factor": 32.0,
        "original_max_position_embeddings": 512,
        "beta_fast": 1.0,
        "beta_slow": 1.0,
    },
    "longrope": {
        "rope_type": "longrope",
        "original_max_position_embeddings": 512,
        "short_factor": [1.0 + 0.01 * i for i in range(12)],
        "long_factor": [1.0 + 0.5 * i for i in range(12)],
    },
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 512,
    },
    "default": {"rope_type": "default", "rope_theta": 77777.0},
    "proportional": {"rope_type": "proportional", "partial_rotary_factor": 0.25},
}


def synthetic() -> dict[str, dict[str, Any]]:
    """Every schedule in the words of v4 and v5, and patterns that no published config here has."""
    base = {
        "vocab_size": 320,
        "hidden_size": 120,
        "num_hidden_layers": 6,
        "num_attention_heads": 5,
        "num_key_value_heads": 5,
        "head_dim": 24,
        "intermediate_size": 100,
        "max_position_embeddings": 2100,
    }
    cases: dict[str, dict[str, Any]] = {}
    for name, block in SCALINGS.items():
        llama = {"model_type": "qwen2", **base}
        old = {key: value for key, value in block.items() if key not in ("rope_theta", "rope_type")}
        cases[f"v4-{name}"] = {**llama, "rope_theta": 54321.0, "rope_scaling": {**old, "type": block["rope_type"]}}
        cases[f"v5-{name}"] = {**llama, "rope_parameters": {"rope_theta": 54321.0, **block}}
        if name not in ("default", "proportional"):
            # A scaled schedule turns a part of the head whatever the family.
            half = {key: value[:6] if isinstance(value, list) else value for key, value in block.items()}
            cases[f"half-{name}"] = {
                **llama,
                "rope_parameters": {"rope_theta": 777.0, "partial_rotary_factor": 0.5, **half},
            }
    nested = {
        "full_attention": {
            "rope_type": "yarn",
            "factor": 4.0,
            "rope_theta": 1e5,
            "original_max_position_embeddings": 525,
        },
        "sliding_attention": {"rope_type": "default", "rope_theta": 1234.0},
    }
    cases["gemma3-nested"] = {"model_type": "gemma3_text", **base, "rope_parameters": nested, "sliding_window": 33}
    unread = {
        "full_attention": {
            "rope_type": "yarn",
            "factor": 8.0,
            "rope_theta": 1e5,
            "original_max_position_embeddings": 512,
            "truncate": False,
        },
        "sliding_attention": {"rope_type": "default", "rope_theta": 1234.0},
    }
    cases["gemma3-nested-yarn"] = {"model_type": "gemma3_text", **base, "rope_parameters": unread, "sliding_window": 33}
    cases["gemma3-legacy"] = {
        "model_type": "gemma3_text",
        **base,
        "rope_theta": 2e6,
        "rope_local_base_freq": 4321.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window_pattern": 3,
    }
    cases["olmo3-legacy"] = {
        "model_type": "olmo3",
        **base,
        "rope_theta": 5e5,
        "rope_scaling": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 512},
    }
    cases["modernbert-legacy"] = {
        "model_type": "modernbert",
        **base,
        "global_rope_theta": 99999.0,
        "local_rope_theta": 2222.0,
        "global_attn_every_n_layers": 2,
        "local_attention": 40,
    }
    cases["qwen2-window"] = {
        "model_type": "qwen2",
        **base,
        "use_sliding_window": True,
        "sliding_window": 99,
        "max_window_layers": 4,
    }
    cases["smollm3-listed"] = {"model_type": "smollm3", **base, "no_rope_layers": [1, 0, 0, 1, 1, 0]}
    cases["llama4-listed"] = {
        "model_type": "llama4_text",
        **base,
        "no_rope_layers": [0, 1, 1, 0, 1, 1],
        "attention_chunk_size": 64,
    }
    cases["cohere2-pattern"] = {"model_type": "cohere2", **base, "sliding_window_pattern": 3, "sliding_window": 17}
    cases["exaone4-global"] = {
        "model_type": "exaone4",
        **base,
        "sliding_window": None,
        "layer_types": ["full_attention"] * 6,
    }
    cases["gpt-neox-names"] = {
        "model_type": "gpt_neox",
        "vocab_size": 320,
        "hidden_size": 120,
        "num_hidden_layers": 3,
        "num_attention_heads": 5,
        "intermediate_size": 100,
        "rotary_pct": 0.5,
        "rotary_emb_base": 5000,
    }
    cases["gptj-width"] = {
        "model_type": "gptj",
        "vocab_size": 320,
        "n_embd": 120,
        "n_layer": 2,
        "n_head": 5,
        "rotary_dim": 12,
    }
    latent = {key: value for key, value in base.items() if key != "head_dim"}
    cases["deepseek-v3-half"] = {
        "model_type": "deepseek_v3",
        **latent,
        "rope_interleave": False,
        "qk_nope_head_dim": 20,
        "qk_rope_head_dim": 12,
    }
    cases["deepseek-v2-yarn"] = {
        "model_type": "deepseek_v2",
        **latent,
        "qk_nope_head_dim": 20,
        "qk_rope_head_dim": 12,
        "rope_scaling": {
            "type": "yarn",
            "factor": 40,
            "mscale": 0.707,
            "mscale_all_dim": 0.707,
            "original_max_position_embeddings": 512,
        },
    }
    cases["hunyuan-alpha"] = {
        "model_type": "hunyuan_v1_dense",
        **base,
        "rope_scaling": {"type": "dynamic", "alpha": 50.0, "factor": 1.0},
    }
    for name in ("t5", "mt5"):
        cases[f"{name}-untied"] = {"model_type": name, "num_layers": 2, "tie_word_embeddings": False}
    cases["granite-scales"] = {
        "model_type": "granite",
        **base,
        "embedding_multiplier": 12.5,
        "logits_scaling": 8.0,
        "attention_multiplier": 0.0625,
    }
    return cases


def from_dict(values: dict[str, Any]) -> PretrainedConfig:
    values = json.loads(json.dumps(values))
    return AutoConfig.for_model(values.pop("model_type"), **values)


def gather(cases: dict[str, PretrainedConfig | Exception]) -> tuple[dict[str, Any], list[str]]:
    rows: dict[str, Any] = {}
    missing: list[str] = []
    for name, config in cases.items():
        try:
            if isinstance(config, Exception):
                raise config
            rows[name] = facts(text_of(config))
        except Exception as error:
            missing.append(f"{name}: {type(error).__name__} {str(error)[:90]}")
    return rows, missing


def attempt(build: Any) -> PretrainedConfig | Exception:
    try:
        return build()
    except Exception as error:
        return error


# Published configs whose meaning transformers misses.
MISREAD = {
    "dbrx-16x13b.json": "attn_config.rope_theta is read nowhere, the base falls back to 10000",
    "glm-4v.json": "a flat config of a class that has a text_config: the text keys are dropped",
    "gpt-j-6b-as-gpt-neo.json": "rotary is dropped, a learned table takes its place",
    "step-3.7-flash.json": "a flat config of a class that has a text_config: the text keys are dropped",
}


def golden() -> tuple[dict[str, Any], list[str]]:
    configs = synthetic()
    made, failed = gather({name: attempt(lambda v=values: from_dict(v)) for name, values in configs.items()})
    defaults, failed_defaults = gather(
        {name: attempt(lambda n=name: text_config(n)) for name in FAMILIES + ALSO if name not in STRICT + ODD}
    )
    published: dict[str, PretrainedConfig | Exception] = {}
    for path in sorted(PUBLISHED.glob("*.json")):
        values = json.loads(path.read_text())
        values.pop("quantization_config", None)
        values.pop("auto_map", None)
        if "model_type" in values and path.name not in MISREAD:
            published[path.name] = attempt(lambda v=values: from_dict(v))
    known, failed_published = gather(published)
    result = {
        "transformers": transformers.__version__,
        "synthetic": {name: {"config": configs[name], **row} for name, row in made.items()},
        "defaults": defaults,
        "published": known,
    }
    return result, failed + failed_defaults + failed_published


def serialised(result: dict[str, Any]) -> str:
    rows = [f' "transformers": {json.dumps(result["transformers"])}']
    for part in ("synthetic", "defaults", "published"):
        entries = [
            f"  {json.dumps(name)}: {json.dumps(row, separators=(',', ':'))}"
            for name, row in sorted(result[part].items())
        ]
        rows.append(f' "{part}": {{\n' + ",\n".join(entries) + "\n }")
    return "{\n" + ",\n".join(rows) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    arguments = parser.parse_args()
    result, missing = golden()
    outputs = {HERE / "transformers.json": serialised(result), ROOT / "src/spec/hf_defaults.cc": defaults_source()}
    for line in missing:
        print(f"transformers makes nothing of {line}", file=sys.stderr)
    stale = [path for path, text in outputs.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        print(f"{'differs' if arguments.check else 'wrote'}: {path.relative_to(ROOT)}")
        if not arguments.check:
            path.write_text(outputs[path])
    return 1 if arguments.check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
