"""The one message of an AttachRequest is cut out as it stands, whichever way its length is written."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import InvalidArgument
from broker.wire import envelopes
from broker.wire.envelopes import BATCH, DETACH, HELLO, LANE_END, MAX_HELLO_BYTES, sole_part


def _length(value: int, padding: int = 0) -> bytes:
    """A length below 16384, written in at least two bytes."""
    return bytes([value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, *[0x80] * padding, 0])


@pytest.mark.parametrize("tag", [HELLO, BATCH, LANE_END, DETACH])
@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 100_000, 3_000_000])
def test_a_message_of_any_size_comes_out_whole(tag: int, size: int):
    length = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80, size >> 21])
    assert sole_part(bytes([tag]) + length + bytes(size)) == (tag, bytes(size))


@given(
    st.sampled_from([HELLO, BATCH, LANE_END, DETACH, 0x2A, 0x08]),
    st.binary(max_size=200),
    st.integers(0, 9),
    st.sampled_from([b"", b"", b"\x7a\x01x", b"\x12\x00", b"\x0a\x00", b"\x12", b"x", bytes(MAX_HELLO_BYTES)]),
    st.integers(0, 3),
)
def test_a_part_alone_is_cut_out_like_one_that_stands_beside_something(
    tag: int, message: bytes, padding: int, beside: bytes, cut: int
):
    data = bytes([tag]) + _length(len(message), padding) + message[: max(0, len(message) - cut)] + beside
    assert _found(sole_part, data) == _found(envelopes._sole_beside, data)


def _found(read: Callable[[bytes], tuple[int, bytes]], data: bytes) -> tuple[int, bytes] | str:
    try:
        return read(data)
    except InvalidArgument as error:
        return error.message
