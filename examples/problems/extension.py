# SPDX-License-Identifier: Apache-2.0
"""An extension that the runtime does not support: the config asks for YaRN, and the runtime passes over the block."""

from __future__ import annotations

import json

from bundled import MODELS, show

config = json.loads((MODELS / "rope" / "config.json").read_text())
config["max_position_embeddings"] = 512
config["rope_parameters"] = {
    **config.get("rope_parameters", {}),
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 128,
}
show("rope", config=config)
