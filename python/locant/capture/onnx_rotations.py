# SPDX-License-Identifier: Apache-2.0
"""Rotations in an ONNX graph: the operators, and the pattern x * cos + turned(x) * sin."""

from __future__ import annotations

from dataclasses import dataclass

from locant.capture.onnx_graph import RESHAPED, SAME, Graph, Node, attribute

TURNING = RESHAPED | {"Neg", "Concat", "Slice", "Split", "Transpose", "Gather", "Mul", "Stack", "GatherND",
                      "ScatterND", "StridedSlice"}  # fmt: skip


@dataclass(frozen=True)
class Rotation:
    """Names of tensors. Heads stand in `before` and `after` as they do in the graph."""

    before: str
    after: str
    cos: str
    sin: str
    positions: str = ""
    """Rows of the tables; "" where the tables are rows already."""
    heads: int = 0
    """Of tensors [B,T,heads*head_dim]; 0 = from the width of the tables."""


def rotations(graph: Graph) -> dict[str, Rotation]:
    """By the name of what comes out."""
    found: dict[str, Rotation] = {}
    for node in graph.nodes:
        one = None
        if node.op_type == "RotaryEmbedding":
            one = _operator(node)
        elif node.op_type == "Add":
            one = _pattern(graph, node)
        if one is not None:
            found[one.after] = one
    return found


def _operator(node: Node) -> Rotation:
    given = [*node.input, "", "", ""]
    if node.domain in ("", "ai.onnx"):
        x, cos, sin, positions = given[:4]
    else:
        x, positions, cos, sin = given[:4]
    return Rotation(x, node.output[0], cos, sin, positions, int(attribute(node, "num_heads", 0)))


def _pattern(graph: Graph, node: Node) -> Rotation | None:
    products = [graph.producer.get(graph.back(name, SAME)) for name in node.input]
    first, second = products[0], products[-1]
    if len(products) != 2 or first is None or second is None:
        return None
    if first.op_type != "Mul" or second.op_type != "Mul":
        return None
    for plain, turned in ((first, second), (second, first)):
        for x, cos in (plain.input, reversed(plain.input)):
            for other, sin in (turned.input, reversed(turned.input)):
                if x != other and cos != sin and _turned(graph, other, x) and _trigonometric(graph, cos, sin):
                    return _whole(graph, Rotation(x, node.output[0], cos, sin))
    return None


def _turned(graph: Graph, name: str, x: str) -> bool:
    """Is `name` made of x by moving channels and changing signs?"""
    if graph.op(name) not in TURNING:
        return False
    reached, signs, front = False, False, [name]
    for _ in range(12):
        following = []
        for one in front:
            node = graph.producer.get(one)
            if one == x:
                reached = True
            elif node is not None and node.op_type in TURNING:
                signs = signs or node.op_type in ("Neg", "Mul")
                following += [source for source in node.input if source]
        front = list(dict.fromkeys(following))
    return reached and signs


def _trigonometric(graph: Graph, cos: str, sin: str) -> bool:
    """From Cos and Sin, or rows of two tables."""
    made = {name: _kind(graph, name) for name in (cos, sin)}
    return (made[cos], made[sin]) in (("Cos", "Sin"), ("table", "table"))


def _kind(graph: Graph, name: str) -> str:
    for one, node in graph.ancestors(name, 16):
        del one
        if node.op_type in ("Cos", "Sin"):
            return str(node.op_type)
        if node.op_type in ("Gather", "Slice", "Split") and graph.is_weight(node.input[0]):
            return "table"
    return "table" if graph.is_weight(graph.back(name, RESHAPED)) else ""


def _whole(graph: Graph, part: Rotation) -> Rotation:
    """Whole heads, where only a part of them is turned and the rest is put beside it."""
    cut = graph.producer.get(part.before)
    if cut is None or cut.op_type not in ("Slice", "Split"):
        return part
    for node in graph.takers(graph.back(part.after, SAME)):
        joins = node.op_type == "Concat" and node.input[0] == part.after and len(node.input) == 2
        beside = graph.producer.get(node.input[1]) if joins else None
        if beside is not None and beside.op_type == cut.op_type and beside.input[0] == cut.input[0]:
            return Rotation(cut.input[0], node.output[0], part.cos, part.sin)
    return part
