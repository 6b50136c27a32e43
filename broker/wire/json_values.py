"""Values as JSON has them, as ``google.protobuf.Value`` and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import struct_pb2

from broker.core.given import given


def struct_message(values: Mapping[str, object]) -> struct_pb2.Struct:
    """An object as a message.

    Raises:
        TypeError: Something in it cannot stand in JSON.
    """
    return struct_pb2.Struct(fields={key: _message(value) for key, value in values.items()})


def read_struct(message: struct_pb2.Struct) -> dict[str, Any]:
    """The inverse of :func:`struct_message`; whole numbers come as integers, and keys by name.

    A map has no order on the wire: as it comes, the same object would be shown in another one each time.
    """
    return {key: _value(value) for key, value in sorted(message.fields.items())}


def _message(value: object) -> struct_pb2.Value:
    match value:
        case None:
            return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
        case bool():
            return struct_pb2.Value(bool_value=value)
        case int() | float():
            return struct_pb2.Value(number_value=value)
        case str():
            return struct_pb2.Value(string_value=value)
        case Mapping():
            return struct_pb2.Value(struct_value=struct_message({str(key): item for key, item in value.items()}))
        case Sequence() if not isinstance(value, bytes):
            return struct_pb2.Value(list_value=struct_pb2.ListValue(values=map(_message, value)))
        case _:
            raise TypeError(f"expected a JSON-like value, got {given(value)}")


def _value(message: struct_pb2.Value) -> Any:
    match message.WhichOneof("kind"):
        case "bool_value":
            return message.bool_value
        case "number_value":
            number = message.number_value
            # Numbers have one type on the wire; a whole one is shown as such.
            return int(number) if number.is_integer() else number
        case "string_value":
            return message.string_value
        case "struct_value":
            return read_struct(message.struct_value)
        case "list_value":
            return [_value(value) for value in message.list_value.values]
        case _:
            return None
