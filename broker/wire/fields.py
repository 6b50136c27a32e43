"""Fields of the contract's messages as they are encoded, in strings whose characters are bytes.

Python puts a string together in one step, whatever it is made of, and a text of ASCII is its own UTF-8 bytes already.
So a message is written as a string of its bytes, one character each (:func:`octets`), and becomes bytes when all of it
stands (:func:`as_bytes`). Tags come from the contract.
"""

from __future__ import annotations

import struct

from google.protobuf.descriptor import Descriptor, FieldDescriptor

_double = struct.Struct("<d").pack
_ZERO = _double(0.0)

_REMEMBERED = 8192
"""Numbers below this are encoded once."""

_TEXTS = 1024
_TEXT_LENGTH = 64
"""How many texts of a field are remembered, and how long they are."""


def octets(text: str) -> str:
    """A text's UTF-8 bytes, one character each."""
    return text if text.isascii() else text.encode().decode("latin-1")


def as_bytes(data: str) -> bytes:
    """The bytes that a string's characters stand for."""
    return data.encode("latin-1")


def varint(value: int) -> bytes:
    """A number of at most 64 bits, seven to a byte; a negative one as its two's complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Field(dict[int, str]):
    """A field by its value, where that is a number; of a text or a message what stands before it, by its size.

    Of a value that the contract's messages leave out, such as an empty text, there is nothing.

    Attributes:
        tag: The field's number and how it is encoded.
        texts: The field by its value, where that is a text that many items have in common.
    """

    def __init__(self, field: FieldDescriptor) -> None:
        wire_type = {FieldDescriptor.CPPTYPE_DOUBLE: 1, FieldDescriptor.CPPTYPE_STRING: 2}.get(field.cpp_type, 0)
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            wire_type = 2
        self.tag = varint(field.number << 3 | wire_type).decode("latin-1")
        self.texts = Texts(self)
        if not field.has_presence and not field.is_repeated:
            self[0] = ""

    def __missing__(self, value: int) -> str:
        data = self.tag + varint(value).decode("latin-1")
        if 0 <= value < _REMEMBERED:
            self[value] = data
        return data

    def text(self, value: str) -> str:
        """A text of this field."""
        return self.sized(octets(value))

    def sized(self, data: str) -> str:
        """A text or a message of this field, of which these are the bytes."""
        return self[len(data)] + data

    def double(self, value: float) -> str:
        """A double of this field, which leaves out a zero (that has no sign)."""
        data = _double(value)
        return self.tag + data.decode("latin-1") if data != _ZERO else ""

    def present(self, value: float) -> str:
        """A double of this field that says whether it is there."""
        return self.tag + _double(value).decode("latin-1")

    def message(self, data: bytes) -> bytes:
        """An encoded message of this field."""
        return self[len(data)].encode("latin-1") + data


class Texts(dict[str, str]):
    """A field by its value, each text encoded once; a few short ones are remembered.

    Args:
        field: The field.
    """

    def __init__(self, field: Field) -> None:
        self._field = field

    def __missing__(self, text: str) -> str:
        data = self._field.text(text)
        if len(text) <= _TEXT_LENGTH:
            if len(self) >= _TEXTS:
                self.clear()
            self[text] = data
        return data


def fields_of(message: Descriptor) -> list[Field]:
    """A message's fields, in the order of their numbers."""
    return [Field(field) for field in sorted(message.fields, key=lambda field: field.number)]
