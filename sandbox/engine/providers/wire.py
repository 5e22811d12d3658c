"""Between protobuf's Struct and property trees."""

from __future__ import annotations

from typing import Any

from google.protobuf import struct_pb2

from sandbox.engine.values import OUTPUT, SIGNATURE, UNKNOWN, Properties, secret

_EXACT_INTEGERS = 2**53  # doubles represent every integer below this


def from_value(value: struct_pb2.Value) -> Any:
    """One protobuf value as Python; whole numbers become int."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return from_struct(value.struct_value)
    if kind == "list_value":
        return [from_value(item) for item in value.list_value.values]
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() and abs(number) < _EXACT_INTEGERS else number
    if kind in (None, "null_value"):
        return None
    return getattr(value, kind)


def from_struct(struct: struct_pb2.Struct) -> Properties:
    """A Struct as property tree with sorted keys; output values become plain, secret or unknown values."""
    tree = {key: from_value(struct.fields[key]) for key in sorted(struct.fields)}
    if tree.get(SIGNATURE) != OUTPUT:
        return tree
    value = tree.get("value", UNKNOWN)
    return secret(value) if tree.get("secret") else value


def to_struct(tree: Properties | None) -> struct_pb2.Struct:
    """A property tree as Struct."""
    struct = struct_pb2.Struct()
    struct.update(tree or {})
    return struct
