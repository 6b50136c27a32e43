"""However many names there are, and whoever makes them up, labels stay few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.core.names import provider_name_problem
from broker.telemetry.names import INLINE, OTHER, Names


@given(st.integers(1, 5), st.lists(st.text(max_size=3)), st.lists(st.text(max_size=3)))
def test_no_more_labels_than_allowed_come_of_any_names(most: int, learnt: list[str], asked: list[str]) -> None:
    names = Names(most)
    labels = {names.learn(name) for name in learnt} | {names[name] for name in asked}
    assert len(labels - {OTHER}) <= most
    assert labels - {OTHER} <= set(learnt)


def test_a_name_keeps_its_label_and_those_that_come_later_share_one() -> None:
    names = Names(2, ["configured"])
    assert [names.learn(name) for name in ("a", "b", "a", "configured")] == ["a", OTHER, "a", "configured"]
    assert names["made-up"] == OTHER
    assert "made-up" not in names


def test_no_provider_is_called_as_a_shared_label() -> None:
    assert provider_name_problem(OTHER)
    assert provider_name_problem(INLINE)
