"""A value that was not expected is shown by its type, and itself only where it is plain and short."""

from __future__ import annotations

import pytest

from broker.core.frames import Frame
from broker.core.given import given
from broker.core.request import Floor


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "None"),
        (True, "True"),
        (7, "int 7"),
        ("fold", "str 'fold'"),
        ("a\nb\u202e", r"str 'a\nb\u202e'"),
        (b"x", "bytes b'x'"),
        ({"secret": 1}, "a dict"),
        ([1], "a list"),
        (Floor("a", "b", 1.0), "a Floor"),
        (OSError("x"), "an OSError"),
        (Floor, "the class Floor"),
        (len, "a builtin_function_or_method"),
    ],
)
def test_values_are_shown_plainly(value: object, shown: str):
    assert given(value) == shown


@pytest.mark.parametrize("value", ["x" * 10_000, "\U0001f600" * 10_000, b"\x00" * 10_000, 10**4000])
def test_what_is_long_is_cut(value: object):
    assert len(given(value)) < 200


def test_the_inside_of_a_value_is_not_shown():
    assert "private" not in given(Frame("private", "private", "private"))
