# SPDX-License-Identifier: Apache-2.0
"""An ONNX graph to walk in: who makes a tensor, who takes it, and which constants stand in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import external_data_helper, numpy_helper

Node = Any
SAME = frozenset({"Cast", "Identity", "Dropout"})  # one value for another
RESHAPED = SAME | {"Unsqueeze", "Squeeze", "Reshape", "Flatten", "Expand"}  # the values, in another shape
PRODUCTS = frozenset({"MatMul", "FusedMatMul"})
SIZES = frozenset({"Shape", "Size", "Constant", "ConstantOfShape"})  # nothing of the tensors' values behind them
WALK = 4096  # tensors looked at in one walk backwards


class Graph:
    """The outer graph of a model; subgraphs of If and Loop are not entered."""

    def __init__(self, model: Any, folder: Path) -> None:
        self.folder = folder
        self.nodes: list[Node] = list(model.graph.node)
        self.inputs: dict[str, Any] = {one.name: one for one in model.graph.input}
        self.outputs: list[str] = [one.name for one in model.graph.output]
        self.initializers: dict[str, Any] = {one.name: one for one in model.graph.initializer}
        self.producer: dict[str, Node] = {}
        self.consumers: dict[str, list[Node]] = {}
        self.order: dict[str, int] = {}
        for index, node in enumerate(self.nodes):
            for name in node.output:
                self.producer[name] = node
                self.order[name] = index
            for name in dict.fromkeys(node.input):
                self.consumers.setdefault(name, []).append(node)

    def op(self, name: str) -> str:
        """The operator that makes a tensor; "" of an input and of a weight."""
        node = self.producer.get(name)
        return node.op_type if node is not None else ""

    def takers(self, name: str) -> list[Node]:
        """Who takes a tensor, but for its shape."""
        return [node for node in self.consumers.get(name, []) if node.op_type != "Shape"]

    def constant(self, name: str) -> NDArray[Any] | None:
        """The values, where they stand in the file."""
        while self.op(name) == "Identity":
            name = self.producer[name].input[0]
        tensor = self.initializers.get(name)
        if tensor is None and self.op(name) == "Constant":
            tensor = attribute(self.producer[name], "value", None)
        if tensor is None:
            return None
        if external_data_helper.uses_external_data(tensor):
            copy = onnx.TensorProto()
            copy.CopyFrom(tensor)
            external_data_helper.load_external_data_for_tensor(copy, str(self.folder))
            tensor = copy
        return np.asarray(numpy_helper.to_array(tensor))

    def is_weight(self, name: str) -> bool:
        """From the file, perhaps widened or turned on its way."""
        name = self.back(name, SAME | {"Transpose", "DequantizeLinear"})
        if name in self.initializers:
            return True
        value = self.constant(name) if self.op(name) == "Constant" else None
        return value is not None and value.ndim > 1

    def back(self, name: str, through: frozenset[str] | set[str]) -> str:
        """The tensor that `name` is, seen through those operators' first inputs."""
        while self.op(name) in through:
            name = self.producer[name].input[0]
        return name

    def is_size(self, name: str, depth: int = 12) -> bool:
        """A constant of one element, or a number that comes from shapes alone."""
        tensor = self.initializers.get(name)
        if tensor is not None:
            return int(np.prod(tensor.dims)) == 1
        node = self.producer.get(name)
        if node is None or depth == 0:
            return False
        if node.op_type == "Constant":
            value = self.constant(name)
            return value is None or value.size == 1
        if node.op_type in SIZES:
            return True
        return bool(node.input) and all(self.is_size(one, depth - 1) for one in node.input if one)

    def ancestors(self, name: str, depth: int = 64) -> Iterator[tuple[str, Node]]:
        """(tensor, the node that makes it), nearest first."""
        seen, front, looked = {name}, [name], 0
        for _ in range(depth):
            following: list[str] = []
            for one in front:
                node = self.producer.get(one)
                if node is None:
                    continue
                looked += 1
                if looked > WALK:
                    return
                yield one, node
                for source in node.input:
                    if source and source not in seen and source not in self.initializers:
                        seen.add(source)
                        following.append(source)
            front = following


def attribute(node: Node, name: str, default: Any) -> Any:
    for one in node.attribute:
        if one.name == name:
            return onnx.helper.get_attribute_value(one)
    return default


def set_attribute(node: Node, name: str, value: int) -> None:
    for one in list(node.attribute):
        if one.name == name:
            node.attribute.remove(one)
    node.attribute.append(onnx.helper.make_attribute(name, value))
