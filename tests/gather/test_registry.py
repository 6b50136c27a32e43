"""The registry knows configured and attached providers in lane order, and one scale for each."""

from __future__ import annotations

import pytest

from broker.core.scores import UNIT, Direction, ScoreScale
from broker.errors import ConfigError, FailedPrecondition, ResourceExhausted
from broker.gather.registry import Registry

OTHER = ScoreScale("bm25", 0.0, 100.0, Direction.LOWER_IS_BETTER)


def names(registry):
    return [provider.name for provider in registry.known()]


def test_configured_ones_come_first_in_their_order_then_the_others_by_name():
    registry = Registry({"z": None, "m": UNIT})
    for name in ("y", "b", "z"):
        registry.attach(name, UNIT, (), replaces=False)
    assert registry.lane_order == ("z", "m")
    assert names(registry) == ["z", "m", "b", "y"]


def test_scales_are_configured_or_last_declared():
    registry = Registry({"c": OTHER, "d": None})
    registry.attach("a", OTHER, ("doc",), replaces=False)
    registry.detach("a", 5.0)
    assert registry.scales() == {"c": OTHER, "d": None, "a": OTHER}
    a = registry.get("a")
    assert (a.kinds, a.last_seen, a.attached) == (("doc",), 5.0, 0)
    assert registry.get("x") is None


def test_scales_are_a_view_in_which_what_is_known_counts_before_what_stands_beside():
    registry = Registry({"c": OTHER})
    scales = registry.scales({"c": UNIT, "pushed": None})
    assert scales == {"c": OTHER, "pushed": None}
    registry.attach("pushed", UNIT, (), replaces=False)
    assert scales == {"c": OTHER, "pushed": UNIT}
    assert list(scales) == ["c", "pushed"]
    assert len(scales) == 2
    assert "x" not in scales


@pytest.mark.parametrize(
    "scale", [ScoreScale("other"), ScoreScale(max=2.0), ScoreScale(direction=Direction.LOWER_IS_BETTER)]
)
def test_any_difference_of_scale_between_instances_is_a_conflict(scale):
    registry = Registry()
    registry.attach("a", UNIT, (), replaces=False)
    with pytest.raises(FailedPrecondition) as caught:
        registry.attach("a", scale, (), replaces=False)
    assert caught.value.reason == "SCALE_CONFLICT"
    assert registry.get("a").attached == 1
    assert registry.get("a").scale == UNIT


def test_a_configured_scale_binds_even_one_that_replaces_itself():
    registry = Registry({"a": UNIT})
    registry.attach("a", UNIT, (), replaces=False)
    with pytest.raises(FailedPrecondition, match="configuration"):
        registry.attach("a", OTHER, (), replaces=True)


def test_a_replacement_is_bound_by_the_others_only():
    registry = Registry()
    registry.attach("a", UNIT, (), replaces=False)
    registry.attach("a", OTHER, (), replaces=True)
    registry.attach("a", OTHER, (), replaces=False)
    with pytest.raises(FailedPrecondition):
        registry.attach("a", UNIT, (), replaces=True)


def test_beyond_the_limit_the_one_gone_longest_is_forgotten():
    registry = Registry({"c": None}, limit=2)
    for name in ("a", "b"):
        registry.attach(name, UNIT, (), replaces=False)
    for name in ("b", "a"):
        registry.detach(name, 1.0)
    registry.attach("d", UNIT, (), replaces=False)
    assert names(registry) == ["c", "a", "d"]
    registry.attach("e", UNIT, (), replaces=False)
    assert names(registry) == ["c", "d", "e"]


def test_beyond_the_limit_attached_and_configured_ones_are_never_forgotten():
    registry = Registry({"c": None}, limit=1)
    registry.attach("c", UNIT, (), replaces=False)
    registry.detach("c", 1.0)
    registry.attach("a", UNIT, (), replaces=False)
    with pytest.raises(ResourceExhausted) as caught:
        registry.attach("b", UNIT, (), replaces=False)
    assert (caught.value.reason, caught.value.quota) == ("PROVIDERS_LIMIT", "providers")
    assert names(registry) == ["c", "a"]


def test_one_that_comes_back_is_not_the_next_to_be_forgotten():
    registry = Registry(limit=2)
    for name in ("a", "b"):
        registry.attach(name, UNIT, (), replaces=False)
        registry.detach(name, 1.0)
    registry.attach("a", UNIT, (), replaces=False)
    registry.detach("a", 2.0)
    registry.attach("d", UNIT, (), replaces=False)
    assert names(registry) == ["a", "d"]


# --- scales that several providers share

COSINE = ScoreScale("cosine", -1.0, 1.0)
WIDER = ScoreScale("cosine", -2.0, 2.0)


def sharing(**scales: ScoreScale | None) -> Registry:
    return Registry({"a": None, "b": None, "c": None, **scales}, shared=[("cosine", ("a", "b"))])


def test_providers_that_share_a_scale_bind_each_other():
    registry = sharing()
    registry.attach("a", COSINE, (), replaces=False)
    assert registry.scales() == {"a": COSINE, "b": COSINE, "c": None}
    with pytest.raises(FailedPrecondition, match="shares its scale with a") as caught:
        registry.attach("b", WIDER, (), replaces=False)
    assert caught.value.reason == "SCALE_CONFLICT"
    registry.attach("b", COSINE, (), replaces=False)
    registry.attach("c", WIDER, (), replaces=False)


def test_a_shared_scale_has_the_name_that_the_operator_gave_it():
    with pytest.raises(FailedPrecondition, match=r"the operator's configuration .* it is cosine"):
        sharing().attach("a", UNIT, (), replaces=False)


def test_once_none_of_them_is_attached_another_range_may_come():
    registry = sharing()
    registry.attach("a", COSINE, (), replaces=False)
    registry.attach("b", COSINE, (), replaces=False)
    registry.detach("a", 1.0)
    with pytest.raises(FailedPrecondition):
        registry.attach("a", WIDER, (), replaces=False)
    registry.detach("b", 2.0)
    registry.attach("a", WIDER, (), replaces=False)
    assert registry.scales() == {"a": WIDER, "b": WIDER, "c": None}


def test_one_that_replaces_itself_is_bound_by_the_others_alone():
    registry = sharing()
    registry.attach("a", COSINE, (), replaces=False)
    registry.attach("a", WIDER, (), replaces=True)
    registry.attach("b", WIDER, (), replaces=False)
    with pytest.raises(FailedPrecondition):
        registry.attach("a", COSINE, (), replaces=True)


def test_those_that_can_be_asked_are_told_apart_and_any_names_can_be_put_in_lane_order():
    registry = Registry({"z": None, "m": UNIT})
    for name in ("y", "b", "z"):
        registry.attach(name, UNIT, (), replaces=False)
    registry.attach("y", UNIT, (), replaces=False)
    for name in ("y", "b"):
        registry.detach(name, 1.0)
    assert registry.attached() == {"y", "z"}
    assert registry.in_lane_order({"unknown", "b", "m", "z"}) == ["z", "m", "b", "unknown"]


# --- another configuration while it runs


def test_a_registry_that_is_configured_anew_is_like_one_made_so():
    old, new = {"a": UNIT, "b": None, "c": OTHER}, {"c": None, "d": UNIT, "a": OTHER}
    registry, made = Registry(old), Registry(new)
    registry.configure(new, ())
    assert registry.lane_order == made.lane_order
    assert [one.name for one in registry.known()] == ["c", "d", "a"]
    assert registry.scales()["a"] == OTHER
    with pytest.raises(FailedPrecondition):
        registry.attach("a", UNIT, (), replaces=False)


def test_those_that_are_attached_stay_known_and_are_remembered_as_others_are():
    registry = Registry({"a": None, "b": None}, limit=1)
    registry.attach("a", UNIT, (), replaces=False)
    registry.configure({"z": None}, ())
    assert names(registry) == ["z", "a"]
    registry.detach("a", 5.0)
    assert names(registry) == ["z", "a"]
    registry.attach("c", UNIT, (), replaces=False)
    assert names(registry) == ["z", "c"]


def test_one_that_is_configured_later_is_never_forgotten():
    registry = Registry(limit=1)
    registry.attach("a", UNIT, (), replaces=False)
    registry.detach("a", 5.0)
    registry.configure({"a": None}, ())
    for name in ("b", "c"):
        registry.attach(name, UNIT, (), replaces=False)
        registry.detach(name, 5.0)
    assert names(registry) == ["a", "c"]


@pytest.mark.parametrize(
    ("configured", "shared"),
    [({"a": OTHER}, ()), ({"a": None, "b": None}, [("bm25", ("a", "b"))])],
)
def test_one_that_is_attached_cannot_be_given_another_scale(configured, shared):
    registry = Registry({"a": None})
    registry.check_configured(configured, shared)
    registry.attach("a", UNIT, (), replaces=False)
    with pytest.raises(ConfigError, match=r"providers\.a: it is attached with another scale"):
        registry.check_configured(configured, shared)
    registry.check_configured({"a": UNIT}, [("unit", ("a", "b"))])
    registry.check_configured({}, ())
