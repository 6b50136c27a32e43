"""Garbage is found, and what is alive is not looked at for it again and again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from broker.limits import garbage
from broker.limits.memory import CHECK_SECONDS, RECLAIM_SECONDS, MemoryWatch


class Thing:
    """Something that may be part of a circle."""

    def __init__(self, *, circle: bool) -> None:
        self.itself = self if circle else None


@pytest.fixture(autouse=True)
def _settled() -> Iterator[None]:
    before = gc.get_threshold()
    gc.collect()
    garbage.settle()
    yield
    gc.callbacks.remove(garbage._keep)
    gc.set_threshold(*before)
    gc.unfreeze()


def rounds() -> list[int]:
    return [generation["collections"] for generation in gc.get_stats()]


def test_settling_again_changes_nothing() -> None:
    garbage.settle()
    assert gc.callbacks.count(garbage._keep) == 1


def test_what_ends_without_circles_costs_no_round() -> None:
    before = rounds()
    for _ in range(100):
        assert len([Thing(circle=False) for _ in range(garbage.THRESHOLDS[0] // 4)]) > 0
    assert rounds() == before


def test_circles_are_found_without_a_full_round() -> None:
    full = rounds()[2]
    alive: weakref.WeakSet[Thing] = weakref.WeakSet()
    for _ in range(5 * garbage.THRESHOLDS[0]):
        alive.add(Thing(circle=True))
        assert len(alive) <= garbage.THRESHOLDS[0]
    assert rounds()[2] == full


def test_what_outlives_a_full_round_is_not_looked_at_again() -> None:
    held = [Thing(circle=False) for _ in range(1000)]
    gc.collect()
    assert len(gc.get_objects()) < 1000
    (first, *_) = (weakref.ref(thing) for thing in held)
    del held
    assert first() is None, "it is free when nothing refers to it"


def test_what_comes_to_stay_is_looked_at_a_few_times_and_no_more() -> None:
    looked: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "start" and info["generation"] == 2:
            looked.append(len(gc.get_objects()))

    gc.callbacks.append(look)
    try:
        held = [Thing(circle=False) for _ in range(60 * garbage.THRESHOLDS[0])]
    finally:
        gc.callbacks.remove(look)
    assert looked
    assert sum(looked) < 1.1 * len(held)


def test_circles_of_what_stayed_are_found_when_memory_is_short() -> None:
    thing = weakref.ref(held := Thing(circle=True))
    gc.collect()
    del held
    gc.collect()
    assert thing() is not None
    resident = 90
    watch = MemoryWatch(100, 0.9, lambda: resident)
    assert watch.shedding(0.0)
    assert thing() is None
    assert gc.get_freeze_count() > 0
    assert garbage.reclaim()


def test_memory_that_stays_short_has_garbage_looked_for_now_and_then() -> None:
    looked: list[int] = []
    watch = MemoryWatch(100, 0.9, lambda: 90, lambda: looked.append(1))
    for number in range(100):
        assert watch.shedding(number * CHECK_SECONDS)
    assert len(looked) == 1
    watch.shedding(RECLAIM_SECONDS)
    assert len(looked) == 2


def test_what_could_be_freed_is_not_held_against_new_work() -> None:
    sizes = iter([90, 80])
    assert not MemoryWatch(100, 0.9, lambda: next(sizes), lambda: None).shedding(0.0)


def test_where_nothing_was_set_up_nothing_is_looked_for() -> None:
    gc.unfreeze()
    assert not garbage.reclaim()
