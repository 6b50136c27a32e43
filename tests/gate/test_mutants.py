"""Every cheat of the hostile cases is refused by the property named, and passes those that cannot see it."""

from __future__ import annotations

import pytest

from broker.gate.checks import Check, monotone_invariance
from broker.gate.maps import AFFINE
from broker.gate.run import Result, run_gate
from broker.gate.samples import Sample, samples
from broker.gate.subjects import Subject
from tests.gate import mutants
from tests.gate.mutants import CAUGHT_BY

SAMPLES = samples(48)


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_a_mutant_is_refused_by_the_property_that_sees_it(name: str):
    subject, must, must_not = CAUGHT_BY[name]
    # Python's hashes change from process to process only.
    verdict = run_gate(subject, processes=name == "M15")
    broken = {prop for prop, result in verdict.results.items() if result is Result.BROKEN}
    assert must <= broken
    assert not must_not & broken
    assert not verdict.passed
    assert {example.property for example in verdict.counterexamples} == broken
    for example in verdict.counterexamples:
        assert 1 <= example.sample.size <= 6, example
        assert example.finding.says


def refuted(subject: Subject, sets: list[Sample], check: Check = monotone_invariance) -> bool:
    return any(check(subject, sample) is not None for sample in sets)


@pytest.mark.parametrize("subject", [mutants.M2, mutants.M3], ids=["min-max", "z-score"])
def test_maps_that_are_linear_would_let_rescaling_cuts_pass(subject: Subject):
    # No floors: a linear map of a lane moves its floor with it, and the cut is of scores alone.
    linear = tuple(AFFINE.values())
    assert not refuted(subject, SAMPLES, lambda s, sample: monotone_invariance(s, sample, linear))
    assert refuted(subject, SAMPLES)


def test_ties_broken_by_raw_scores_are_seen_among_frames_of_one_rank_only():
    single = [sample for sample in SAMPLES if len(sample.lanes) > 1]
    assert refuted(mutants.M6, single)
    assert not refuted(mutants.M6, [Sample(s.seed, s.lanes[:1]) for s in single])


def test_the_better_scored_copy_is_seen_where_evidence_is_shared_only():
    def distinct(sample: Sample) -> Sample:
        from dataclasses import replace

        lanes = tuple(
            replace(lane, frames=tuple(replace(f, content=f"{lane.provider} {f.id}") for f in lane.frames))
            for lane in sample.lanes
        )
        return replace(sample, lanes=lanes)

    assert refuted(mutants.M7, SAMPLES)
    assert not refuted(mutants.M7, [distinct(sample) for sample in SAMPLES])


@pytest.mark.parametrize(("subject", "limit"), [(mutants.M9, "max_tokens"), (mutants.M13, "max_frames")])
def test_packing_by_score_is_seen_under_pressure_only(subject: Subject, limit: str):
    assert refuted(subject, SAMPLES)
    assert not refuted(subject, [sample.unpressed() for sample in SAMPLES])
    example = next(e for e in run_gate(subject, processes=False).counterexamples if e.property == "T2")
    assert getattr(example.sample, limit) is not None
