# SPDX-License-Identifier: Apache-2.0
"""The hidden states of an ONNX graph: what is looked up, what enters layer 0, what each layer leaves, the head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from locant.capture.onnx_attention import Attention
from locant.capture.onnx_graph import PRODUCTS, RESHAPED, SAME, Graph, Node

NORMS = frozenset({"LayerNormalization", "SimplifiedLayerNormalization", "RMSNormalization"})
SKIPS = frozenset({"SkipLayerNormalization", "SkipSimplifiedLayerNormalization"})


@dataclass
class States:
    """Names of tensors; "" = not found."""

    tokens: str = ""
    positions: str = ""
    types: str = ""
    indices: str = ""
    """Positions whose rows of a table were taken."""
    entry: str = ""
    outs: dict[int, str] = field(default_factory=dict)
    branches: dict[int, str] = field(default_factory=dict)
    """Layer -> what its attention adds to the stream."""
    final: str = ""
    logits: str = ""


def states(graph: Graph, layers: Sequence[Attention]) -> States:
    found = States()
    lookups = [node for node in graph.nodes if node.op_type == "Gather" and graph.is_weight(node.input[0])]
    for node in lookups:
        if graph.back(node.input[1], RESHAPED) == "input_ids":
            found.tokens = node.output[0]
            break
    if found.tokens:
        found.entry = _entry(graph, found, {node.output[0]: node for node in lookups})
        stream = _stream(graph, found.entry)
        _layers(graph, found, stream, layers)
    found.logits = next((name for name in graph.outputs if name == "logits"), "")
    head = graph.producer.get(graph.back(found.logits, RESHAPED)) if found.logits else None
    while head is not None and head.op_type in ("Add", "Mul", "Div", "Tanh"):  # a bias, a scale, a softcap
        head = next((graph.producer.get(graph.back(one, RESHAPED)) for one in head.input if graph.op(one)), None)
    if head is not None and head.op_type in PRODUCTS | {"Gemm", "MatMulNBits"}:
        found.final = graph.back(head.input[0], frozenset({"Reshape", "Identity"}))
    return found


def _entry(graph: Graph, found: States, lookups: dict[str, Node]) -> str:
    """Along the additions behind the lookup, to where the stream forks: a norm and the first residual."""
    name = found.tokens
    while True:
        takers = graph.takers(name)
        if len(takers) != 1:
            return name
        node = takers[0]
        if node.op_type == "Add":
            other = next((one for one in node.input if one != name), "")
            lookup = lookups.get(graph.back(other, RESHAPED))
            if lookup is not None:
                ids = graph.back(lookup.input[1], RESHAPED)
                if ids == "token_type_ids":
                    found.types = other
                else:
                    found.positions, found.indices = other, _counted(graph, lookup.input[1])
        elif not (node.op_type in SAME | NORMS or (node.op_type == "Mul" and any(map(graph.is_size, node.input)))):
            return name
        name = node.output[0]


def _counted(graph: Graph, name: str) -> str:
    """Positions behind the rows of a table that begins with others."""
    inner = graph.back(name, RESHAPED)
    node = graph.producer.get(inner)
    if node is not None and node.op_type == "Add":
        offsets = [graph.is_size(one) for one in node.input]
        if sum(offsets) == 1:
            return str(node.input[offsets.index(False)])
    return name


def _stream(graph: Graph, entry: str) -> list[str]:
    """The residual stream from its entry on, one tensor after each addition."""
    stream, seen = [entry], {entry}
    while True:
        name = stream[-1]
        following = ""
        front = [name]
        while front and not following:
            one = front.pop()
            for node in graph.takers(one):
                if node.op_type in SAME:
                    front.append(node.output[0])
                elif node.op_type == "Add" and not any(graph.is_weight(x) or graph.is_size(x) for x in node.input):
                    following = node.output[0]
                elif node.op_type in SKIPS and len(node.output) > 3 and node.output[3]:
                    following = node.output[3]
        takers = graph.takers(following)
        if len(takers) == 1 and takers[0].op_type in NORMS and graph.order.get(following, 0) > 0:
            normed = takers[0].output[0]  # a norm behind the addition
            if any(node.op_type == "Add" for node in graph.takers(normed)):
                following = normed
        if not following or following in seen:
            return stream
        seen.add(following)
        stream.append(following)


def _layers(graph: Graph, found: States, stream: list[str], layers: Sequence[Attention]) -> None:
    """Which tensor of the stream each layer starts from, and so which the one before it left."""
    place = {name: index for index, name in enumerate(stream)}
    starts: list[int] = []
    for one in layers:
        source = one.q_pre or one.q
        name = source.name if source else one.packed[0] if one.packed else ""
        starts.append(max((place[x] for x in _reached(graph, name, place)), default=-1))
    if -1 in starts or starts != sorted(set(starts)):
        return
    for index, one in enumerate(layers):
        end = starts[index + 1] if index + 1 < len(layers) else len(stream) - 1
        if end > starts[index]:
            found.outs[one.layer] = stream[end]
        node = graph.producer.get(stream[starts[index] + 1]) if starts[index] + 1 < len(stream) else None
        if node is not None and node.op_type == "Add" and end == starts[index] + 2:
            back = {graph.back(x, SAME): x for x in node.input}
            back.pop(graph.back(stream[starts[index]], SAME), None)
            if len(back) == 1 and _is_projection(graph, next(iter(back))):
                found.branches[one.layer] = next(iter(back.values()))


def _is_projection(graph: Graph, name: str) -> bool:
    """From a matrix and perhaps a bias; a norm behind attention is not part of it."""
    node = graph.producer.get(graph.back(name, SAME | {"Reshape"}))
    if node is not None and node.op_type == "Add" and any(graph.is_weight(one) for one in node.input):
        other = next(one for one in node.input if not graph.is_weight(one))
        node = graph.producer.get(graph.back(other, SAME))
    return node is not None and node.op_type in PRODUCTS | {"Gemm", "FusedGemm", "MatMulNBits"}


def _reached(graph: Graph, name: str, stream: dict[str, int]) -> list[str]:
    """The nearest tensors of the stream behind a tensor."""
    reached, seen, front = [], {name}, [name]
    while front:
        one = front.pop()
        if one in stream:
            reached.append(one)
            continue
        node = graph.producer.get(one)
        for source in node.input if node is not None else ():
            if source and source not in seen and source not in graph.initializers:
                seen.add(source)
                front.append(source)
    return reached
