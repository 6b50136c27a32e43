"""Every built-in policy passes the gate, the raw one by its name; what fails is shown at its smallest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import cycle

import pytest

from broker.core.handles import Handle
from broker.core.strategies import CATALOGUE
from broker.gate.run import CHECKS, Result, run_gate
from broker.gate.samples import Sample, samples
from broker.gate.subjects import Subject, built_in, plugged_in
from tests.gate import mutants

RAW = {info.name: info.compares_raw_scores for info in CATALOGUE.values()}


@pytest.mark.parametrize("name", RAW)
def test_every_built_in_policy_passes(name: str):
    verdict = run_gate(built_in(name))
    assert verdict.passed
    assert verdict.counterexamples == ()
    exempt = {prop for prop, result in verdict.results.items() if result is Result.EXEMPT}
    assert exempt == ({"T2"} if RAW[name] else set())
    assert set(verdict.results) == set(CHECKS)


def test_score_descending_would_be_refused_but_for_its_name():
    raw = built_in("score_descending")
    verdict = run_gate(Subject(name="raw", strategies=raw.strategies), count=24)
    assert [name for name, result in verdict.results.items() if result is Result.BROKEN] == ["T2"]


def test_a_counterexample_holds_nothing_that_it_does_not_need():
    verdict = run_gate(mutants.M6, processes=False)
    (example,) = verdict.counterexamples
    check = CHECKS[example.property][1]
    assert check(mutants.M6, example.sample) is not None
    for smaller in example.sample.smaller():
        assert smaller.size == 0 or check(mutants.M6, smaller) is None
    assert example.sample.size == 2


def test_the_same_verdict_comes_every_time():
    first, second = (run_gate(mutants.M5, processes=False) for _ in range(2))
    assert first == second


def test_a_composer_that_raises_does_not_pass():
    def broken(lanes, request, policy):
        raise ZeroDivisionError("what now")

    verdict = run_gate(Subject(name="broken", strategies=built_in("round_robin").strategies, composer=broken))
    assert not verdict.passed
    assert "ZeroDivisionError: what now" in verdict.counterexamples[0].finding.says


def test_a_plugin_that_changes_its_mind_is_refused():
    class Fickle(mutants.Careless):
        calls = 0

        def order(self, handles, params):
            self.calls += 1
            sign = 1 if self.calls % 2 else -1
            return [h.index for h in sorted(handles, key=lambda h: (h.local_rank, h.lane_order * sign))]

    verdict = run_gate(plugged_in(Fickle(), ""))
    assert verdict.results["T4"] is Result.BROKEN
    assert "asked twice" in next(e for e in verdict.counterexamples if e.property == "T4").finding.says


def test_a_plugin_that_turns_a_lane_round_by_the_order_of_lanes_is_refused():
    class ByTheFirst(mutants.Careless):
        def order(self, handles, params):
            first = next((h.provider for h in handles if h.lane_order == 0), "")
            sign = 1 if first < "c" else -1
            return [h.index for h in sorted(handles, key=lambda h: (h.provider, sign * h.local_rank))]

    verdict = run_gate(plugged_in(ByTheFirst(), ""))
    assert "of its own lane" in next(e for e in verdict.counterexamples if e.property == "T4").finding.says


def by_kind_in_turns(handles: Sequence[Handle]) -> list[Handle]:
    """Marginal relevance: the best one left, the less the more of its kind are taken."""
    left, taken = list(handles), []
    while left:
        kinds = Counter(h.kind for h in taken)
        best = min(left, key=lambda h: (h.local_rank + 2 * kinds[h.kind], h.lane_order))
        left.remove(best)
        taken.append(best)
    return taken


HONEST: dict[str, Callable[[Sequence[Handle]], Sequence[Handle]]] = {
    "as given": list,
    "backwards": lambda handles: handles[::-1],
    "worst first": lambda handles: sorted(handles, key=lambda h: (-h.local_rank, h.lane_order)),
    "last lane first": lambda handles: sorted(handles, key=lambda h: (h.local_rank, -h.lane_order)),
    "cheap first": lambda handles: sorted(handles, key=lambda h: h.cost),
    "dear first": lambda handles: sorted(handles, key=lambda h: (-h.cost, h.local_rank)),
    "newest first": lambda handles: sorted(handles, key=lambda h: h.recorded_at, reverse=True),
    "vouchers first": lambda handles: sorted(handles, key=lambda h: (-h.vouchers, h.local_rank, h.lane_order)),
    "by name": lambda handles: sorted(handles, key=lambda h: (h.frame_id, h.provider)),
    "short lanes first": lambda handles: sorted(
        handles, key=lambda h: (sum(o.provider == h.provider for o in handles), h.lane_order, h.local_rank)
    ),
    "kinds in turns": by_kind_in_turns,
}
"""Policies that are odd, and break no rule."""


@pytest.mark.parametrize("name", HONEST)
def test_a_policy_that_is_odd_and_honest_passes(name: str):
    class Odd(mutants.Careless):
        def order(self, handles, params):
            return [h.index for h in HONEST[name](handles)]

    assert run_gate(plugged_in(Odd(), "")).counterexamples == ()


def test_a_policy_that_keeps_the_first_forty_of_many_is_refused():
    class FirstForty(mutants.Careless):
        def order(self, handles, params):
            return [h.index for h in handles[:40]]

    verdict = run_gate(plugged_in(FirstForty(), ""))
    assert [example.property for example in verdict.counterexamples] == ["order"]


def test_an_answer_without_end_is_refused_and_not_read_to_it():
    class Endless(mutants.Careless):
        def order(self, handles, params):
            return cycle(h.index for h in handles)

    verdict = run_gate(plugged_in(Endless(), ""))
    assert [example.property for example in verdict.counterexamples] == ["order"]


def test_a_policy_that_ends_the_program_is_refused_and_ends_nothing():
    class Leaves(mutants.Careless):
        def order(self, handles, params):
            raise SystemExit(0)

    (example,) = run_gate(plugged_in(Leaves(), "")).counterexamples
    assert "failed with SystemExit" in example.finding.says


def test_every_property_has_a_sentence():
    assert list(CHECKS) == ["T1", "T2", "T3", "T4", "T5", "ranks", "order"]
    assert all(sentence for sentence, _ in CHECKS.values())


def test_no_sample_at_all_is_nothing_to_shrink_to():
    assert Sample(0, ()).size == 0
    assert all(sample.size for sample in samples(48))
