# SPDX-License-Identifier: Apache-2.0
"""Records the forward passes of a transformers model (PyTorch, version 5) as a trace.

What is recorded is what the model computes: hooks and wrappers read tensors on their way and change none. Scores
are the argument of the softmax itself, so that whatever a model adds to them is in them. Everything is put back
when the context ends. A path without an explicit softmax (sdpa, flash) has no scores in its trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from locant.capture.modules import stacks
from locant.capture.recorder import Recorder, dtype_named
from locant.capture.session import Session

__all__ = ["Recorder", "trace"]


@contextmanager
def trace(model: Any) -> Iterator[Recorder]:
    """Records every forward pass of `model` inside the context: the first one, then step.1/, step.2/, ...

    With an encoder and a decoder each is recorded, the encoder behind "encoder."; an encoder has one pass, the first.

    >>> with trace(model) as recorded:
    ...     model(input_ids=ids)
    >>> recorded.save("run.safetensors")
    """
    import transformers

    parts = stacks(model)
    recorder = Recorder(
        f"transformers {transformers.__version__}",
        type(model).__name__,
        dtype_named(next(model.parameters()).dtype),
        "encoder" if len(parts) == 1 and parts[0].encoder else "",
    )
    with ExitStack() as opened, torch.no_grad():
        for part in parts:
            session = Session(recorder, model, part)
            opened.enter_context(session.stack)
            session.install()
        yield recorder
