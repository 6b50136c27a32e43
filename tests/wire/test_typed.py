"""A value of another type is named by its path, with what was expected and what was given; any other is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.frames import Frame, Provenance, Relation
from broker.core.request import Floor, Placement, Rerank
from broker.core.strategies import Precomputed, RoundRobin, Strategy, TrustWeighted
from broker.errors import InvalidArgument
from broker.wire.requests import InlineLane
from broker.wire.typed import check_of, held, require
from tests.wire import values


def said(value: object, hint: Any, path: str = "at") -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as error:
        require((path, value, hint))
    [violation] = error.value.violations
    assert violation.reason == "FIELD_INVALID"
    return violation.field, violation.message


@pytest.mark.parametrize(
    ("value", "hint", "field", "message"),
    [
        (7, str, "at", "expected text, got int 7"),
        (b"x", str, "at", "expected text, got bytes b'x'"),
        (True, int, "at", "expected a whole number, got True"),
        (1.0, int, "at", "expected a whole number, got float 1.0"),
        (True, float, "at", "expected a number, got True"),
        ("1", float | None, "at", "expected a number or None, got str '1'"),
        (1, bool, "at", "expected True or False, got int 1"),
        (
            "fold",
            Placement,
            "at",
            (
                "expected Placement.FOLD, Placement.RANK_ORDER, Placement.REVERSE_RANK, Placement.CANONICAL or "
                "Placement.AUTO, got str 'fold'"
            ),
        ),
        (Rerank, Rerank | None, "at", "expected a Rerank or None, got the class Rerank; write Rerank(…)"),
        (Floor("a", "s", 1.0), Iterable[Floor], "at", "expected a list of Floor, got a Floor; put it into a list"),
        ("files", Iterable[str], "at", "expected a list of texts, got str 'files'; put it into a list"),
        (5, Iterable[str], "at", "expected a list of texts, got int 5"),
        ({"a": 1}, Iterable[str], "at", "expected a list of texts, got a dict"),
        (["a", 5], Iterable[str], "at[1]", "expected text, got int 5"),
        ([Floor("a", "s", "x")], Iterable[Floor], "at[0].value", "expected a number, got str 'x'"),
        (TrustWeighted({"a": "much"}), Strategy | None, "at.weights['a']", "expected a number, got str 'much'"),
        (TrustWeighted({7: 1.0}), Strategy, "at.weights", "a key is not as expected: expected text, got int 7"),
        (TrustWeighted([]), Strategy, "at.weights", "expected a mapping of text to a number, got a list"),
        (Precomputed(("a",)), Strategy, "at.ids[0]", "expected a tuple of text, text, got str 'a'"),
        (Precomputed((("a", 1),)), Strategy, "at.ids[0][1]", "expected text, got int 1"),
        (InlineLane("m", frames=[Frame(7, "t", "c")]), InlineLane, "at.frames[0].id", "expected text, got int 7"),
        (5, Callable[[str], None] | None, "at", "expected a function or None, got int 5"),
    ],
)
def test_what_is_said(value: object, hint: Any, field: str, message: str):
    assert said(value, hint) == (field, message)


def test_every_kind_of_policy_is_offered_where_one_is_expected():
    _, message = said("rrf", Strategy | None)
    for kind in Strategy.__args__:
        assert kind.__name__ in message
    assert said(RoundRobin, Strategy | None)[1].endswith("got the class RoundRobin; write RoundRobin(…)")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (1, float),
        (Fraction(1, 2), float),
        ([], tuple[Frame, ...]),
        ({"a"}, Iterable[str]),
        ({"k": [1, {"x": None}]}, Mapping[str, object]),
        (print, Callable[[str], None]),
        (None, Strategy | None),
    ],
)
def test_what_is_as_good_as_the_type_is_taken(value: object, hint: Any):
    require(("at", value, hint))


@given(values.frames)
def test_every_frame_is_taken(frame: Frame):
    assert check_of(Frame)(frame) is None


@pytest.mark.parametrize("kind", [Frame, Provenance, Relation, Floor, Rerank, InlineLane, *Strategy.__args__])
def test_every_field_of_a_value_is_looked_at(kind: type):
    good = {Frame: ("i", "t", "c"), Provenance: ("file",), Relation: ("r",), Floor: ("a", "s", 0.5)}
    named = {"Rerank": ("r",), "InlineLane": ("m",), "Precomputed": ((),), "PluginStrategy": ("p",)}
    value = kind(*good.get(kind, named.get(kind.__name__, ())))
    require(("", value, kind))
    for field in kind.__struct_fields__:
        wrong = replace(value, **{field: object()})
        assert said(wrong, kind, "")[0] == field, get_type_hints(kind)[field]


def test_all_that_is_wrong_is_named_at_once():
    with pytest.raises(InvalidArgument) as error:
        require(("a", 1, str), ("b", "x", str), ("c", "y", int))
    assert [violation.field for violation in error.value.violations] == ["a", "c"]


@given(st.lists(st.integers()))
def test_what_can_be_gone_through_once_is_held(numbers: list[int]):
    assert held(iter(numbers)) == tuple(numbers)
    assert held(numbers) is numbers
    assert held("text") == "text"
    assert held(5) == 5
