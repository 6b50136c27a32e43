"""Wrong messages out of right ones: bytes are read as a tree of fields, one is changed, and every length fits again.

Changing bytes alone seldom gets past the lengths that stand before everything nested.
"""

from __future__ import annotations

import random
import struct
from typing import TypeAlias

Value: TypeAlias = "int | bytes | list[Field]"
Field: TypeAlias = "tuple[int, int, Value]"
"""Number, wire type, and value; a nested message is a list of fields."""

MAX_BYTES = 8192

_NUMBERS = (0, 1, 2, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
_DOUBLES = (0.0, -0.0, 1.0, 1.00000001, -1e-17, 1e308, 5e-324, float("inf"), float("-inf"), float("nan"))
_TEXTS = (
    *(b"", b"*", b"a", b"default", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\r\n\x1b[31m", "\u202e\u200b".encode()),
    *(
        b"sha256:" + b"0" * 64,
        b"2026-02-30T00:00:00Z",
        b"9999-12-31T23:59:59.999999999Z",
        b"x" * 600,
        "é".encode() * 300,
    ),
)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """A message of which one to four things were changed; at most :data:`MAX_BYTES`, cut where it would be more."""
    fields = _parse(data)
    for _ in range(rng.randint(1, 4)):
        _change(fields, rng)
    found = bytearray(_encode(fields))
    if rng.random() < 0.1 and found:
        found[rng.randrange(len(found))] ^= 1 << rng.randrange(8)
    return bytes(found[:MAX_BYTES])


def _change(fields: list[Field], rng: random.Random) -> None:
    if not fields or rng.random() < 0.1:
        fields.insert(rng.randint(0, len(fields)), _new(rng))
        return
    at = rng.randrange(len(fields))
    number, kind, value = fields[at]
    if isinstance(value, list) and rng.random() < 0.8:
        _change(value, rng)
        return
    choice = rng.randrange(8)
    if choice == 0:
        del fields[at]
    elif choice == 1:
        fields.insert(rng.randint(0, len(fields)), fields[at])
    elif choice == 2:
        rng.shuffle(fields)
    elif choice == 3:
        fields[at] = (rng.randint(1, 40), kind, value)
    elif choice == 4:
        fields[at] = (number, *_new(rng)[1:])
    elif choice == 5:
        fields[at : at + 1] = [fields[at]] * rng.choice((2, 3, 65, 300))
    elif choice == 6 and isinstance(value, list):
        for _ in range(rng.choice((1, 10, 101))):
            value = [(number, 2, value)]
        fields[at] = (number, 2, value)
    else:
        fields[at] = (number, kind, _other(kind, rng))


def _new(rng: random.Random) -> Field:
    kind = rng.choice((0, 1, 2, 5))
    return (rng.choice((rng.randint(1, 40), rng.randint(1, 2**29 - 1))), kind, _other(kind, rng))


def _other(kind: int, rng: random.Random) -> Value:
    if kind == 0:
        return rng.choice(_NUMBERS)
    if kind == 1:
        return struct.pack("<d", rng.choice(_DOUBLES))
    if kind == 5:
        return rng.randbytes(4)
    return rng.choice(_TEXTS)


def _parse(data: bytes) -> list[Field]:
    """The fields of a message, or none of bytes that are not one."""
    fields: list[Field] = []
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 2**29 or kind not in {0, 1, 2, 5}:
            return []
        value: Value
        if kind == 0:
            value, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(kind, 0)
            if kind == 2:
                size, at = _varint(data, at)
            if at + size > len(data):
                return []
            part, at = data[at : at + size], at + size
            value = part
            # What reads as a message is taken for one; a text seldom does.
            if kind == 2 and part and (nested := _parse(part)):
                value = nested
        fields.append((number, kind, value))
    return fields if at == len(data) else []


def _varint(data: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while at < len(data) and shift < 64:
        found |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return found, at
        shift += 7
    return 0, len(data) + 1


def _encode(fields: list[Field]) -> bytes:
    out = bytearray()
    for number, kind, value in fields:
        out += _as_varint(number << 3 | kind)
        if isinstance(value, int):
            out += _as_varint(value)
        else:
            inner = _encode(value) if isinstance(value, list) else value
            out += (_as_varint(len(inner)) if kind == 2 else b"") + inner
    return bytes(out)


def _as_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))
