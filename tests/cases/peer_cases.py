# SPDX-License-Identifier: Apache-2.0
"""Cases that a peer runtime filled in: a head `x`, and `y` after the peer rotated it at each position. One shape of
case for all peers, so that one test judges them (tests/positions/peers_test.cc)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

Case = dict[str, Any]
Floats = NDArray[np.float32]
Rotate = Callable[[Floats, int], Floats]

ULP = 2.0**-23
POSITIONS = [0, 1, 255, 256, 257, 2049, 4097, 32769, 131071]


def provenance(peer: str, packages: Sequence[str], *sources: str) -> dict[str, str]:
    return {
        "generator": f"tests/cases/generate_peer_{peer}.py",
        "package": ", ".join(f"{name} {version(name)}" for name in packages) + ", CPU, float32",
        "source": "; ".join(sources),
    }


def head(width: int) -> Floats:
    """A head whose pairs all differ; every value is exact in f32."""
    return np.array([((7 * c) % 13 - 6) / 4 + 0.125 for c in range(width)], np.float32)


def digits(values: Any) -> Any:
    """f32 values as decimals that give them back."""
    return [float(f"{value:.9g}") for value in np.asarray(values, np.float64).tolist()]


def watched(parameters: Case) -> list[int]:
    """Channels of a few pairs, and some that stay: enough to see pairing, offset and width."""
    width = int(parameters["head_dim"])
    rotated = int(parameters.get("rotary_dim", width))
    offset, pairs = int(parameters.get("rotary_offset", 0)), rotated // 2
    some = sorted({0, 1, 2, pairs // 4, pairs // 3, pairs // 2, 5 * pairs // 8, 3 * pairs // 4, pairs - 2, pairs - 1})
    half = parameters.get("pairing", "half") == "half"
    channels = [offset + (i if half else 2 * i) for i in some if i >= 0]
    channels += [c + (pairs if half else 1) for c in channels]
    channels += [c for c in (0, offset - 1, offset + rotated, width - 1) if 0 <= c < width]
    return sorted(set(channels))


def rotated(
    what: str,
    mechanism: str,
    parameters: Case,
    rotate: Rotate,
    positions: Sequence[int] = tuple(POSITIONS),
    **more: Any,
) -> Case:
    """more: seen, capacity, keys."""
    x = head(int(parameters["head_dim"]))
    channels = watched(parameters)
    rows = []
    for position in positions:
        y = np.asarray(rotate(x, position), np.float64)
        if y.shape != x.shape or not np.isfinite(y).all():
            raise SystemExit(f"{what}: the peer gave {y.shape} at position {position}")
        rows.append(digits(y[channels]))
    case = {"what": what, "mechanism": mechanism, "parameters": parameters, **more}
    return case | {"positions": list(positions), "x": x.tolist(), "channels": channels, "y": rows}


def refused(what: str, mechanism: str, parameters: Case, call: Callable[[], Any], error: type[Exception]) -> Case:
    """A case that the peer refuses, with the start of what it says."""
    try:
        call()
    except error as said:
        return {"what": what, "mechanism": mechanism, "parameters": parameters, "refused": str(said).split("\n")[0]}
    raise SystemExit(f"{what}: the peer does not refuse it")


def agree(old: Case, new: Case) -> bool:
    """The same case; values as far as an ulp of a frequency, which differs between CPUs, moves an angle."""
    soft = ("y", "scores", "slopes", "values")
    if {k: v for k, v in old.items() if k not in soft} != {k: v for k, v in new.items() if k not in soft}:
        return False
    if not all(close(a, b, 4 * ULP) for a, b in zip(old.get("slopes", []), new.get("slopes", []), strict=True)):
        return False
    for name, least in (("y", 4 * ULP), ("scores", 2.0**-16), ("values", 4 * ULP)):
        before, after = np.array(old.get(name, [])), np.array(new.get(name, []))
        if before.shape != after.shape:
            return False
        if before.size == 0:
            continue
        places = np.array(old["positions"], np.float64)
        reach = np.abs(places).max(axis=tuple(range(1, places.ndim))) if places.ndim > 1 else np.abs(places)
        slack = 2 * (least + 2 * ULP * reach).reshape(-1, *([1] * (before.ndim - 1)))
        if not (np.abs(before - after) <= slack).all():
            return False
    return True


def close(a: float, b: float, of: float) -> bool:
    return abs(a - b) <= of * abs(a)
