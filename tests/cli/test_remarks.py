"""An answer that is not what its asker hoped for is remarked on, and one that is gets no remark."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from broker.cli.remarks import not_on_record, remarks
from broker.core.audited import AuditRow, LaneSummary
from broker.core.composition import AuditState
from broker.core.lanes import LaneEnd


def _broken(provider, detail, **values):
    return AuditRow(
        provider=provider, frame_id="x", content_digest="", included=False, reason="INVALID", detail=detail, **values
    )


def _with(composition, **summary):
    return replace(composition, summary=replace(composition.summary, **summary))


@pytest.mark.parametrize("strategy", ["round_robin", "precomputed"])
def test_an_answer_as_it_was_asked_for_has_none(compose_by_hand, strategy):
    params = {"ids": 2, "name": "", "named": 2} if strategy == "precomputed" else {}
    assert list(remarks(compose_by_hand(strategy=strategy, params=params))) == []


@pytest.mark.parametrize(
    ("inline", "pushed", "advice"),
    [
        (["mine"], [], "; --inline-scale mine=ID:MIN:MAX names the scale of its scores"),
        ([], ["mine"], "; push --scale ID:MIN:MAX names the scale of its scores"),
        ([], [], ""),
    ],
)
def test_frames_that_broke_a_rule_are_counted_with_what_to_do(compose_by_hand, inline, pushed, advice):
    detail = "SCORE_RANGE: scale 'unit' goes from 0 to 1"
    lanes = [LaneSummary(provider="mine", end=LaneEnd.COMPLETE, offered=3)]
    composition = compose_by_hand(extra_rows=[_broken("mine", detail)] * 2, extra_lanes=lanes)
    (told,) = remarks(composition, inline, pushed)
    assert told == f"mine: 2 of 3 frames broke a rule and were left out: {detail}{advice}"


def test_several_rules_are_told_with_their_counts_and_without_a_providers_control_characters(compose_by_hand):
    rows = [_broken("mine", "TITLE_EMPTY: a"), _broken("mine", "ID_EMPTY: b"), _broken("mine", "ID_EMPTY: \x1b")]
    lanes = [LaneSummary(provider="mine", end=LaneEnd.COMPLETE, offered=3)]
    (told,) = remarks(compose_by_hand(extra_rows=rows, extra_lanes=lanes), ["mine"])
    assert told.endswith("left out: TITLE_EMPTY 1, ID_EMPTY 2")
    (alone,) = remarks(compose_by_hand(extra_rows=rows[2:], extra_lanes=lanes))
    assert alone.endswith("ID_EMPTY: ⟦U+001B⟧")


@pytest.mark.parametrize(
    ("ids", "named", "says"),
    [
        (1, 0, "the order names 1 frame, and none could be ranked"),
        (3, 1, "the order names 3 frames, and 1 of them could be ranked"),
    ],
)
def test_an_order_that_names_what_is_not_there_is_told(compose_by_hand, ids, named, says):
    params = {"ids": ids, "name": "", "named": named}
    (told,) = remarks(compose_by_hand(strategy="precomputed", params=params))
    assert told.startswith(says)


def test_an_empty_prompt_says_why(compose_by_hand):
    empty = compose_by_hand([])
    assert list(remarks(_with(empty, reasons={"OVER_BUDGET": 2}))) == [
        "no frame was placed: OVER_BUDGET 2 (cost more than was left of the budget); give more --max-tokens"
    ]
    lanes = (LaneSummary(provider="late", end=LaneEnd.TIMED_OUT), LaneSummary(provider="a", end=LaneEnd.EMPTY))
    assert list(remarks(_with(empty, reasons={}, lanes=lanes))) == [
        "no frame was placed: none was offered for this question (late TIMED_OUT)"
    ]


@pytest.mark.parametrize("state", AuditState)
def test_one_that_should_be_on_record_and_is_not_is_told(compose_by_hand, state):
    composition = replace(compose_by_hand(), audit_state=state)
    told = list(remarks(composition))
    if state is AuditState.DEGRADED:
        assert told[0].startswith("this composition is not on record: the broker's store was away")
        assert not_on_record(composition) == ", not on record (DEGRADED)"
    else:
        assert (told, not_on_record(composition)) == ([], "")
