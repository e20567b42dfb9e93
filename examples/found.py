# SPDX-License-Identifier: Apache-2.0
"""Faults of the installed transformers, live: a tiny random model of the class, recorded and judged.

usage: python examples/found.py NAME     without NAME: the names
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

import locant

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SIZES = {"vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 6}
LLAMA = {**SIZES, "num_key_value_heads": 2, "head_dim": 12, "intermediate_size": 40, "max_position_embeddings": 512}
BART = {"vocab_size": 97, "d_model": 48, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "is_decoder": True,
        "is_encoder_decoder": False, "pad_token_id": 1}  # fmt: skip


def padded(model: Any) -> None:
    """Two rows, the first behind 7 pads; no position_ids, as a plain call has it."""
    ids, mask = torch.randint(5, 90, (2, 24), generator=torch.Generator().manual_seed(1)), torch.ones(2, 24).long()
    mask[0, :7] = 0
    model(input_ids=ids.where(mask == 1, torch.tensor(1)), attention_mask=mask)


def generated(model: Any) -> None:
    """The same, and a token more with the cache."""
    ids, mask = torch.randint(5, 90, (2, 24), generator=torch.Generator().manual_seed(1)), torch.ones(2, 25).long()
    mask[0, :7] = 0
    out = model(input_ids=ids.where(mask[:, :24] == 1, torch.tensor(1)), attention_mask=mask[:, :24], use_cache=True)
    model(input_ids=ids[:, :1], attention_mask=mask, use_cache=True, cache=out.cache)


def plain(model: Any) -> None:
    model(input_ids=torch.randint(5, 90, (1, 120), generator=torch.Generator().manual_seed(1)))


def packed(model: Any) -> None:
    """Two documents in a row, told apart by their position_ids and, for the trace, by seq_idx."""
    ids = torch.randint(5, 90, (1, 24), generator=torch.Generator().manual_seed(1))
    places, document = torch.cat([torch.arange(10), torch.arange(14)])[None], torch.tensor([[0] * 10 + [1] * 14])
    model(input_ids=ids, position_ids=places, seq_idx=document.int(), use_cache=False)


@dataclass(frozen=True)
class Case:
    kind: str
    keys: dict[str, Any]
    run: Callable[[Any], None]
    rule: str  # what is found


CASES = {
    "falcon-alibi": Case("falcon", {**SIZES, "alibi": True, "multi_query": False, "new_decoder_architecture": False},
                         padded, "B101"),
    "xglm-left-padding": Case("xglm", {"vocab_size": 97, "d_model": 48, "num_layers": 2, "attention_heads": 4,
                                       "ffn_dim": 48, "pad_token_id": 1}, padded, "P104"),
    "bart-left-padding": Case("bart", BART, padded, "P104"),
    "roberta-decoding": Case("roberta", {**SIZES, "intermediate_size": 48, "is_decoder": True, "pad_token_id": 1,
                                         "max_position_embeddings": 512}, generated, "P102"),
    "gpt-oss-documents": Case("gpt_oss", {**LLAMA, "num_local_experts": 2, "num_experts_per_tok": 1,
                                          "sliding_window": 64}, packed, "B106"),
    "opt-documents": Case("opt", {"vocab_size": 97, "hidden_size": 48, "num_hidden_layers": 2, "ffn_dim": 48,
                                  "num_attention_heads": 4, "word_embed_proj_dim": 48, "pad_token_id": 1},
                          packed, "B106"),
    "dbrx-theta": Case("dbrx", {"vocab_size": 97, "d_model": 48, "n_heads": 4, "n_layers": 2, "max_seq_len": 512,
                                "attn_config": {"kv_n_heads": 2, "rope_theta": 500000.0, "clip_qkv": 8.0},
                                "ffn_config": {"ffn_hidden_size": 48, "moe_num_experts": 2, "moe_top_k": 1}},
                       plain, "T101"),
    "xlm-padding": Case("xlm", {"vocab_size": 97, "emb_dim": 48, "n_layers": 2, "n_heads": 4, "causal": True,
                                "n_langs": 1}, padded, "B103"),
    "bigbird-pegasus-tie": Case("bigbird_pegasus", BART, plain, "W103"),
}  # fmt: skip


def show(case: Case) -> int:
    """Prints what is found; 0 where the expected fault is among it."""
    torch.manual_seed(4)
    config = AutoConfig.for_model(case.kind, **case.keys)
    made = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        for parameter in made.parameters():
            if parameter.dim() >= 2:
                parameter.normal_(std=parameter.shape[-1] ** -0.5)
        made.save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager").eval()
        with locant.trace(model) as recorded:
            case.run(model)
        report = locant.check(folder, trace=recorded)
    print(f"transformers {transformers.__version__}, {case.kind}")
    for finding in report.findings:
        if finding.severity != "note":
            print(f"{finding.rule} {finding.name} {finding.severity}: {finding.message.replace(folder, '...')}")
    return 0 if any(finding.rule == case.rule for finding in report.findings) else 1


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in CASES:
        print(f"usage: python examples/found.py {'|'.join(CASES)}")
        sys.exit(2)
    sys.exit(show(CASES[sys.argv[1]]))
