#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden cases from the live CTranslate2 package: what recipe `ctranslate2` has to imitate.

usage: generate_peer_ctranslate2.py [--check]
Writes peer_ctranslate2.json beside this file; --check compares instead, values as far as rounding and an ulp of a
frequency allow. A tiny Llama of transformers goes through the package's converter and its logits say what the
rotation did; longrope is specified directly, since Phi3Loader of 4.8.5 does not load what transformers 5 holds.
"""

import sys
import tempfile
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import ctranslate2
import numpy as np
import torch
from ctranslate2.converters.marian import _make_sinusoidal_position_encodings
from ctranslate2.converters.transformers import LlamaLoader
from ctranslate2.specs import attention_spec, common_spec, transformer_spec
from transformers import LlamaConfig, LlamaForCausalLM

import peer_cases
from golden_files import write_or_check
from peer_cases import Case, Floats, digits, refused
from peer_probe import VOCABULARY, Forward, Probe
from published_factors import PHI3_MINI_LONG, PHI3_MINI_SHORT

TOKENS = [f"t{i}" for i in range(VOCABULARY)]


def probe_of(width: int, heads: int) -> Probe:
    return Probe(width, heads, (0, 1, width // 8, width // 4, 3 * width // 8, width // 2 - 1))


def llama(probe: Probe, rope: Case, theta: float) -> LlamaForCausalLM:
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=probe.hidden,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=probe.heads,
            num_key_value_heads=probe.heads,
            max_position_embeddings=131072,
            rope_parameters={"rope_theta": theta, **rope},
        )
    )
    layer = model.model.layers[0]
    weights = {
        model.model.embed_tokens: probe.embeddings(),
        layer.self_attn.q_proj: probe.query(),
        layer.self_attn.k_proj: probe.key(),
        layer.self_attn.v_proj: probe.value(),
        layer.self_attn.o_proj: probe.output(),
        layer.mlp.down_proj: np.zeros((probe.hidden, 32), np.float32),
        model.lm_head: probe.lm_head(),
    }
    with torch.no_grad():
        for module, values in weights.items():
            module.weight.copy_(torch.from_numpy(values))
    return model


def specified(probe: Probe, theta: float, **rotary: Any) -> Any:
    """The spec of a one-layer Llama with the probe's weights."""
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        1, probe.heads, activation=common_spec.Activation.SWISH, pre_norm=True, ffn_glu=True, rms_norm=True,
        rotary_dim=0, rotary_interleave=False, rotary_base=theta, **rotary,
    )  # fmt: skip
    decoder, layer = spec.decoder, spec.decoder.layer[0]
    ones = np.ones(probe.hidden, np.float32)
    decoder.scale_embeddings = False
    decoder.embeddings.weight, decoder.projection.weight = probe.embeddings(), probe.lm_head()
    for norm in (decoder.layer_norm, layer.self_attention.layer_norm, layer.ffn.layer_norm):
        norm.gamma = ones
    layer.self_attention.linear[0].weight = np.concatenate([probe.query(), probe.key(), probe.value()])
    layer.self_attention.linear[1].weight = probe.output()
    layer.ffn.linear_0.weight = layer.ffn.linear_0_noact.weight = np.zeros((32, probe.hidden), np.float32)
    layer.ffn.linear_1.weight = np.zeros((probe.hidden, 32), np.float32)
    return spec


def generator(spec: Any, folder: str) -> Forward:
    spec.register_vocabulary(TOKENS)
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = TOKENS[0]
    spec.validate()
    spec.optimize()
    spec.save(folder)
    opened = ctranslate2.Generator(folder, device="cpu", compute_type="float32", intra_threads=1)

    def forward(ids: list[int]) -> Floats:
        logits = opened.forward_batch([[TOKENS[i] for i in ids]])
        return np.array(logits, np.float32)[0]

    return forward


def measured(
    what: str, mechanism: str, parameters: Case, spec: Any, probe: Probe, positions: list[int], **more: Any
) -> Case:
    with tempfile.TemporaryDirectory() as folder:
        scores = probe.measured(generator(spec, folder), positions)
    case = {"what": what, "mechanism": mechanism, "parameters": parameters, "seen": max(positions) + 1, **more}
    return case | {"positions": positions, "pairs": list(probe.pairs), "scores": scores}


def converted() -> Iterator[Case]:
    """transformers -> converter -> runtime."""
    for what, mechanism, theta, width, heads, theirs, mine in (
        ("default", "rope", 10000.0, 64, 1, {"rope_type": "default"}, {}),
        ("default", "rope", 500000.0, 128, 2, {"rope_type": "default"}, {}),
        ("linear", "linear", 123456.0, 40, 2, {"rope_type": "linear", "factor": 4.0}, {"factor": 4.0}),
        (
            "llama3",
            "llama3",
            500000.0,
            64,
            1,
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
            {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_length": 8192},
        ),
    ):
        probe = probe_of(width, heads)
        spec = LlamaLoader().get_model_spec(llama(probe, theirs, theta))
        parameters = {"theta": theta, "head_dim": width, **mine}
        yield measured(f"LlamaLoader, {what}", mechanism, parameters, spec, probe, [1, 2, 255, 256, 257, 2049, 2100])


def longrope() -> Iterator[Case]:
    """The table of a fresh runtime has 2048 rows, or as many as the text; longer than the original, it is long."""
    probe = probe_of(96, 1)
    for seen, original in ((300, 2047), (300, 2048), (2049, 2048), (2049, 2560), (2561, 2560)):
        spec = specified(
            probe,
            10000.0,
            rotary_scaling_type=attention_spec.RotaryScalingType.Su,
            rotary_scaling_factor=4.0,
            original_max_position_embeddings=original,
            max_position_embeddings=131072,
        )
        layer = spec.decoder.layer[0].self_attention
        layer.rotary_scaling_long_factor = np.array(PHI3_MINI_LONG, np.float32)
        layer.rotary_scaling_short_factor = np.array(PHI3_MINI_SHORT, np.float32)
        parameters = {
            "theta": 10000.0,
            "head_dim": 96,
            "short_factor": PHI3_MINI_SHORT,
            "long_factor": PHI3_MINI_LONG,
            "original_length": original,
            "max_positions": 131072,
            "factor": 4.0,
        }
        keys = {"factor": "rope_parameters.factor"}
        what = f"longrope, {seen} tokens, original length {original}"
        yield measured(what, "longrope", parameters, spec, probe, [1, 100, seen - 1], keys=keys)


def refusals() -> Iterator[Case]:
    for mechanism, rope, parameters in (
        ("yarn", {"rope_type": "yarn", "factor": 4.0}, {"factor": 4.0, "original_length": 4096}),
        ("dynamic_ntk", {"rope_type": "dynamic", "factor": 2.0}, {"factor": 2.0, "max_positions": 4096}),
        ("proportional", {"rope_type": "proportional", "partial_rotary_factor": 0.25}, {"proportion": 0.25}),
    ):
        config = SimpleNamespace(rope_scaling=rope)
        call = lambda config=config: LlamaLoader().get_rotary_params(config, 10000)  # noqa: E731
        yield refused(f"converter, {mechanism}", mechanism, {"head_dim": 64, **parameters}, call, NotImplementedError)


def silent_encoder(width: int) -> Any:
    """An encoder whose embeddings and only layer are zero: its state is the position encoding."""
    spec = transformer_spec.TransformerEncoderModelSpec(
        transformer_spec.TransformerEncoderSpec(1, 4, pre_norm=True, no_final_norm=True)
    )
    spec.encoder.embeddings[0].weight = np.zeros((VOCABULARY, width), np.float32)
    layer = spec.encoder.layer[0]
    for norm in (layer.self_attention.layer_norm, layer.ffn.layer_norm):
        norm.gamma, norm.beta = np.ones(width, np.float32), np.zeros(width, np.float32)
    for linear, rows in (
        (layer.self_attention.linear[0], 3 * width),
        (layer.self_attention.linear[1], width),
        (layer.ffn.linear_0, width),
        (layer.ffn.linear_1, width),
    ):
        linear.weight, linear.bias = np.zeros((rows, width), np.float32), np.zeros(rows, np.float32)
    spec.register_vocabulary(TOKENS)
    spec.config.unk_token = TOKENS[0]
    return spec


def sinusoids() -> Iterator[Case]:
    """What an encoder makes of no encodings at run time, and the table that Marian's converter writes."""
    rows = [0, 1, 2, 255, 256, 257, 499]
    for width in (16, 512):
        spec = silent_encoder(width)
        with tempfile.TemporaryDirectory() as folder:
            spec.validate()
            spec.optimize()
            spec.save(folder)
            encoder = ctranslate2.Encoder(folder, device="cpu", compute_type="float32", intra_threads=1)
            state = np.array(encoder.forward_batch([[TOKENS[1]] * (rows[-1] + 1)]).last_hidden_state)[0]
        yield table_case(f"Encoder, width {width}", {"width": width, "dialect": "halves"}, rows, state)
    for width in (16, 512):
        parameters = {"width": width, "dialect": "marian", "arithmetic": "f64"}
        table = _make_sinusoidal_position_encodings(width).astype(np.float32)
        yield table_case(f"converters/marian.py, width {width}", parameters, [*rows, 2047], table)


def table_case(what: str, parameters: Case, rows: list[int], table: Floats) -> Case:
    width = parameters["width"]
    columns = sorted({0, 1, 2, 3, width // 4, width // 2 - 1, width // 2, width // 2 + 1, width - 2, width - 1})
    return {
        "what": what,
        "mechanism": "sinusoidal",
        "parameters": parameters,
        "positions": rows,
        "columns": columns,
        "values": [digits(table[row, columns]) for row in rows],
    }


def peer_ctranslate2() -> Case:
    parts = (converted, longrope, refusals, sinusoids)
    sources = (
        "converters.transformers.LlamaLoader: get_model_spec, get_rotary_params",
        "Generator.forward_batch and Encoder.forward_batch of models with one layer",
        "converters.marian._make_sinusoidal_position_encodings",
    )
    return {
        "provenance": peer_cases.provenance("ctranslate2", ["ctranslate2", "transformers", "torch"], *sources),
        "recipe": "ctranslate2",
        "cases": [case for part in parts for case in part()],
    }


if __name__ == "__main__":
    sys.exit(write_or_check({"peer_ctranslate2": peer_ctranslate2}, __doc__, peer_cases.agree))
