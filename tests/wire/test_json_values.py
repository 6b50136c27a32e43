"""Values as JSON has them come back as they were; whole numbers as integers, and nothing that JSON does not have."""

from __future__ import annotations

import math

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.json_values import read_struct, struct_message
from tests.wire import values


@given(st.dictionaries(values.texts, values.json_values, max_size=4))
def test_an_object_comes_back_as_it_was(value: dict):
    data = struct_message(value).SerializeToString()
    assert read_struct(struct_pb2.Struct.FromString(data)) == value


def test_whole_numbers_are_integers_and_others_are_not():
    read = read_struct(struct_message({"a": 60.0, "b": 0.5, "c": True, "d": math.inf, "e": ()}))
    assert [type(value) for value in read.values()] == [int, float, bool, float, list]


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", 1j, [object()], {"deep": {"er": b""}}])
def test_what_json_does_not_have_is_refused(value: object):
    with pytest.raises(TypeError, match="expected a JSON-like value, got"):
        struct_message({"x": value})
