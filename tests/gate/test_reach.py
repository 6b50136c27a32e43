"""A score that can be reached from what a policy is given is found, whatever the way to it."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import pytest

from broker.core.scores import UNIT, LocalScore
from broker.core.strategies import PluginStrategy, TrustWeighted
from broker.gate import reach
from broker.gate.reach import nothing_to_reach, way_to_score
from broker.gate.samples import samples
from broker.gate.subjects import Subject, built_in
from tests.gate import mutants

SCORE = LocalScore("a", UNIT, 0.318)
NUMBERS = {0.318}


class Slotted:
    __slots__ = ("_hidden",)

    def __init__(self, hidden):
        self._hidden = hidden


class Property:
    @property
    def score(self):
        return float("0.318")


class Number(int):
    score = SCORE


class Method:
    def __init__(self, owner):
        self.better = owner.compare


class Owner:
    def __init__(self):
        self.score = SCORE

    def compare(self):
        return self.score


def generator(score):
    yield score


def closure(score):
    return lambda: score


def default(score):
    def inner(hidden=score):
        return hidden

    return inner


WAYS = {
    "itself": SCORE,
    "a number": 0.318,
    "an attribute": SimpleNamespace(score=SCORE),
    "a slot": Slotted(0.318),
    "a number of a class of its own": Number(7),
    "a property": Property(),
    "a closure": closure(SCORE),
    "a default": default(0.318),
    "a partial": functools.partial(print, SCORE),
    "a bound method": Method(Owner()),
    "a generator": generator(SCORE),
    "deep down": [{"x": (Slotted(closure({"y": [SCORE]})),)}],
    "a set": {(1, 0.318)},
    "a map object": map(str, [SCORE]),
    "a built-in method": {"x": SCORE}.get,
    "a function of C made with it": functools.cache(closure(SCORE)),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_score_is_found_whatever_the_way(way: str):
    if way == "a generator":
        next(WAYS[way])
    path = way_to_score([WAYS[way]], NUMBERS)
    assert path is not None
    assert path.startswith("given[0]")


@pytest.mark.parametrize(
    "given", [None, 0.5, "0.318", [1, 2.0], closure(0.5), Slotted("x"), print, int, SimpleNamespace]
)
def test_what_leads_to_no_score_is_passed(given):
    assert way_to_score(given, NUMBERS) is None


def test_an_attribute_that_raises_leads_nowhere():
    class Moody:
        @property
        def score(self):
            raise ValueError

    assert way_to_score(Moody(), NUMBERS) is None


def test_a_ring_ends():
    ring: list[object] = []
    ring.append(ring)
    assert way_to_score(ring, NUMBERS) is None


def test_what_has_no_end_is_too_much(monkeypatch):
    monkeypatch.setattr(reach, "MOST", 500)

    class Endless:
        @property
        def next(self):
            return Endless()

    assert "no end" in way_to_score(Endless(), NUMBERS)


@pytest.mark.parametrize("sample", samples(12))
def test_what_policies_are_given_leads_to_no_score(sample):
    assert nothing_to_reach(built_in("round_robin"), sample) is None


def test_a_weight_that_equals_some_score_is_no_score():
    subject = Subject(name="x", strategies=(TrustWeighted({"ash": 0.5, "fir": 1.0}),))
    assert all(nothing_to_reach(subject, sample) is None for sample in samples(6))


def test_the_way_is_named():
    sample = next(s for s in samples(12) if s.lanes[0].numbers)
    assert "_score" in nothing_to_reach(mutants.M16_handle, sample).says
    assert "<closure entry>" in nothing_to_reach(mutants.M16_closure, sample).says
    assert "['ranks'][0].score" in nothing_to_reach(mutants.M16_column, sample).says


def test_a_plugin_that_walks_frames_answers_differently_alone():
    walker = mutants.FrameWalker()
    subject = Subject(name="w", strategies=(PluginStrategy(walker.name),), plugin=walker)
    found = [nothing_to_reach(subject, sample) for sample in samples(12)]
    assert any(finding is not None and "no frame above it" in finding.says for finding in found)
