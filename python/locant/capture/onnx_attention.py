# SPDX-License-Identifier: Apache-2.0
"""Attention in an ONNX graph: what the scores are made of, by layer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from locant.capture.onnx_graph import PRODUCTS, SAME, Graph, Node, attribute, set_attribute
from locant.capture.onnx_rotations import Rotation, rotations

LAYER = re.compile(r"(?:layers?|blocks?|h)[._/](\d+)(?=[._/]|$)")
ON_THE_WAY = SAME | {"Add", "Sub", "Mul", "Div", "Where", "Tanh", "Max", "Clip", "Reshape", "Concat", "Unsqueeze",
                     "Squeeze"}  # fmt: skip
REPEATED = SAME | {"Reshape", "Expand", "Unsqueeze", "Tile"}


@dataclass(frozen=True)
class Heads:
    """A tensor of heads: "bthd", or "" where its shape tells. [B,T,H*D] has `heads` of them, or those of `like`."""

    name: str
    layout: str = ""
    heads: int = 0
    like: str = ""


@dataclass(frozen=True)
class Attention:
    """One self-attention; None and "" = not there."""

    layer: int
    node: Node
    q: Heads | None = None
    k: Heads | None = None
    v: Heads | None = None
    q_pre: Heads | None = None
    k_pre: Heads | None = None
    q_in: Heads | None = None
    """q with a scale, where that comes before the product."""
    packed: tuple[str, int, int] | None = None
    """Tensor, heads and kv heads of q, k and v side by side."""
    scores: str = ""
    probs: str = ""
    rotation: Rotation | None = None
    present: tuple[str, str] | None = None
    """Keys and values behind the operator, [B,kv_heads,S,head_dim]."""
    rotated_inside: bool = False
    """q and k are turned in the operator: only k comes out, in `present`."""


def attentions(graph: Graph) -> list[Attention]:
    """In the order of the graph, with their layers' numbers."""
    turned = rotations(graph)
    found: list[Attention] = []
    for node in graph.nodes:
        one = None
        if node.op_type == "Softmax":
            one = _explicit(graph, node, turned)
        elif node.op_type in ("GroupQueryAttention", "MultiHeadAttention", "Attention"):
            one = _operator(graph, node, turned)
        if one is not None:
            found.append(one)
    numbers = [_number(one.node) for one in found]
    if None in numbers or len(set(numbers)) != len(numbers):
        numbers = list(range(len(found)))
    return [_numbered(one, number or 0) for one, number in zip(found, numbers, strict=True)]


def _numbered(one: Attention, layer: int) -> Attention:
    return Attention(**{**one.__dict__, "layer": layer})


def _number(node: Node) -> int | None:
    for name in (node.name, *node.output):
        match = LAYER.search(name)
        if match is not None:
            return int(match[1])
    return None


# -- MatMul, Softmax, MatMul


def _explicit(graph: Graph, softmax: Node, turned: Mapping[str, Rotation]) -> Attention | None:
    sums = [node for node in _forward(graph, softmax.output[0]) if node.op_type in PRODUCTS]
    product = _product(graph, softmax.input[0])
    if not sums or product is None:
        return None
    q, q_rotation = _heads(graph, product.input[0], turned)
    k, k_rotation = _heads(graph, product.input[1], turned)
    v, _ = _heads(graph, sums[0].input[1], {})
    rotation = q_rotation or k_rotation
    scaled = _scaled(graph, q)
    return Attention(
        0, softmax, scaled or q, k, v, _before(q_rotation), _before(k_rotation), q if scaled else None,
        scores=softmax.input[0], probs=softmax.output[0], rotation=rotation,
    )  # fmt: skip


def _forward(graph: Graph, name: str) -> list[Node]:
    """Takers, seen through what changes nothing and what cuts a column of sinks off."""
    found = []
    for node in graph.takers(name):
        if node.op_type in SAME | {"Slice", "Reshape"}:
            found += _forward(graph, node.output[0])
        elif node.op_type not in PRODUCTS or node.input[0] == name:
            found.append(node)
    return found


def _product(graph: Graph, scores: str) -> Node | None:
    front = [scores]
    for _ in range(16):
        following: list[str] = []
        for name in front:
            node = graph.producer.get(name)
            if node is None:
                continue
            if node.op_type in PRODUCTS and not any(graph.is_weight(one) for one in node.input):
                return node
            if node.op_type in ON_THE_WAY:
                following += [one for one in node.input if one and not graph.is_size(one)]
        front = list(dict.fromkeys(following))
    return None


def _heads(graph: Graph, name: str, turned: Mapping[str, Rotation]) -> tuple[Heads | None, Rotation | None]:
    """This call's heads behind an operand of a product: before scale, repetition and the past."""
    for _ in range(24):
        if name in turned:
            return Heads(name, "", turned[name].heads), turned[name]
        node = graph.producer.get(name)
        if node is None:
            return None, None
        if node.op_type == "Transpose":
            order = tuple(attribute(node, "perm", ()))
            if order in ((0, 2, 1, 3), (0, 2, 3, 1)):
                inner = node.input[0]
                if inner in turned:
                    return Heads(inner, "bthd"), turned[inner]
                return Heads(inner, "bthd"), None
            if order not in ((0, 1, 3, 2), (0, 2, 1)):
                return None, None
            name = node.input[0]
        elif node.op_type in REPEATED:
            name = node.input[0]
        elif node.op_type == "Concat":
            name = node.input[-1]  # behind the past
        elif node.op_type in ("Mul", "Div"):
            sizes = [graph.is_size(one) for one in node.input]
            if sum(sizes) != 1:
                return None, None
            name = node.input[sizes.index(False)]
        elif node.op_type in ("Slice", "Split"):
            return Heads(name), None  # one of q, k and v that are made in one
        else:
            return None, None
    return None, None


def _scaled(graph: Graph, q: Heads | None) -> Heads | None:
    """The projection in front of a scale and of the cut into heads."""
    if q is None or graph.op(q.name) != "Reshape":
        return None
    node = graph.producer.get(graph.back(q.name, frozenset({"Reshape"})))
    if node is None or node.op_type not in ("Mul", "Div"):
        return None
    sizes = [graph.is_size(one) for one in node.input]
    return Heads(str(node.input[sizes.index(False)]), like=q.name) if sum(sizes) == 1 else None


# -- operators


def _operator(graph: Graph, node: Node, turned: Mapping[str, Rotation]) -> Attention | None:
    microsoft = node.domain == "com.microsoft"
    if microsoft and node.op_type == "Attention":
        return None  # the projections are in it
    given = [*node.input, *[""] * 10]
    query_heads = int(attribute(node, "num_heads" if microsoft else "q_num_heads", 0))
    key_heads = int(attribute(node, "kv_num_heads", query_heads))
    packed = (given[0], query_heads, key_heads) if not given[1] else None
    q, k, v = (
        None if packed or not name else Heads(name, "", heads)
        for name, heads in zip(given[:3], (query_heads, key_heads, key_heads), strict=True)
    )
    q_rotation = turned.get(graph.back(given[0], SAME | {"Reshape"}))
    k_rotation = turned.get(graph.back(given[1], SAME | {"Reshape"})) if given[1] else None
    grouped = node.op_type == "GroupQueryAttention"
    inside = grouped and bool(attribute(node, "do_rotary", 0))
    present = (node.output[1], node.output[2]) if len(node.output) > 2 and node.output[1] else None
    rotation = Rotation(given[0], "", given[7], given[8], given[9]) if inside else (q_rotation or k_rotation)
    scores = ""
    if grouped or not microsoft:
        scores = _ask_for_scores(node, "qk_output" if grouped else "qk_matmul_output_mode", 1 if grouped else 2)
    return Attention(
        0, node, None if inside else q, None if inside else k, v,
        q if inside else _before(q_rotation), k if inside else _before(k_rotation),
        packed=packed, scores=scores, rotation=rotation, present=present, rotated_inside=inside,
    )  # fmt: skip


def _before(rotation: Rotation | None) -> Heads | None:
    return Heads(rotation.before, "", rotation.heads) if rotation else None


def _ask_for_scores(node: Node, key: str, value: int) -> str:
    """A fourth output: what the softmax takes."""
    if len(node.output) > 3 and node.output[3]:
        return ""
    while len(node.output) < 3:
        node.output.append("")
    name = f"{node.output[0]}/scores"
    del node.output[3:]
    node.output.append(name)
    set_attribute(node, key, value)
    return name
