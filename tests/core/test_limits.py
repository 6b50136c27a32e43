"""A limit that another makes idle is reported, and one that merely did not come to bear is not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from broker.core.audited import LimitConflict, LimitsRecord, RerankOutcome, RerankRecord
from broker.core.limits import limit_conflicts
from broker.core.request import CompositionRequest
from tests.core.building import POLICY, composed, lane


def conflicts(lanes: int = 2, rerank: RerankRecord | None = None, **limits) -> list[tuple[str, str]]:
    found = limit_conflicts(CompositionRequest(max_tokens=1, **limits), lanes, rerank)
    return [(one.limit, one.overridden_by) for one in found]


def reranked(top_n: int | None, outcome: RerankOutcome = RerankOutcome.APPLIED) -> RerankRecord:
    return RerankRecord(
        name="some", version="", candidates=50, scored=9, unscored=0, top_n=top_n, min_score=None, outcome=outcome
    )


@pytest.mark.parametrize("limit", ["max_frames_per_provider", "max_frames_per_source"])
def test_a_part_above_the_whole_is_overridden_by_it(limit):
    assert conflicts(max_frames=3, **{limit: 4}) == [(limit, "max_frames")]
    assert conflicts(max_frames=4, **{limit: 4}) == []
    assert conflicts(**{limit: 4}) == [], "the operator's own cap is none of the caller's limits"


def test_more_frames_than_the_lanes_may_give_are_overridden_by_what_a_lane_may():
    assert conflicts(max_frames=5, max_frames_per_provider=2) == [("max_frames", "max_frames_per_provider")]
    assert conflicts(max_frames=4, max_frames_per_provider=2) == []
    assert conflicts(0, max_frames=5, max_frames_per_provider=2) == [], "nothing was ranked"


def test_a_reranker_and_the_frames_override_whichever_is_above_the_other():
    assert conflicts(max_frames=5, rerank=reranked(3)) == [("max_frames", "rerank.top_n")]
    assert conflicts(max_frames=3, rerank=reranked(5)) == [("rerank.top_n", "max_frames")]
    assert conflicts(max_frames=3, rerank=reranked(3)) == conflicts(max_frames=3, rerank=reranked(None)) == []
    assert conflicts(max_frames=5, rerank=reranked(3, RerankOutcome.FALLBACK)) == [], "nothing was trimmed"


def test_a_composition_reports_them_with_both_figures():
    lanes = [lane("a", {"x": 0.9, "y": 0.8}), lane("b", {"z": 0.9}), lane("c", {})]
    composition = composed(*lanes, max_frames=9, max_frames_per_provider=1)
    assert composition.summary.limit_conflicts == (
        LimitConflict(
            "max_frames",
            "max_frames_per_provider",
            "max_frames is 9, and max_frames_per_provider allows 1 in each lane that was ranked, 2 in all",
        ),
    )


@pytest.mark.parametrize(("of_caller", "of_operator", "tighter"), [(3, 5, 3), (5, 3, 3), (None, 3, 3), (None,) * 3])
def test_what_bounds_a_composition_is_on_record_whether_or_not_it_cut(of_caller, of_operator, tighter):
    policy = replace(POLICY, max_frames=of_operator, max_block_bytes=9000)
    composition = composed(
        lane("a", {"x": 0.9}), policy=policy, max_frames=of_caller, max_frames_per_provider=2, max_frames_per_source=1
    )
    assert composition.summary.limits == LimitsRecord(
        max_frames=tighter, max_frames_per_provider=2, max_frames_per_source=1, max_block_bytes=9000
    )


def test_a_limit_that_tokens_left_no_work_for_is_no_conflict():
    composition = composed(lane("a", {"x": 0.9, "y": 0.8, "z": 0.7}), max_tokens=150, max_frames=3)
    assert composition.summary.reasons["OVER_BUDGET"] > 0
    assert composition.summary.limit_conflicts == ()
