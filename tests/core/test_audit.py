"""The audit alone is enough: with it the order can be worked out again, and every figure can be checked."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import pytest
from hypothesis import given

import broker
from broker.core.audited import AuditRow, FloorRecord, Reason
from broker.core.composition import Composition
from broker.core.frames import FrameRef, Provenance
from broker.core.lanes import LaneEnd, Unreadable
from broker.core.request import Floor
from broker.core.strategies import (
    PerProviderQuota,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    TrustWeighted,
)
from tests.core.building import DISTANCE, composed, frame, lane, row
from tests.core.offers import maps, offers, requests
from tests.core.test_gate import run


def order_of(composition: Composition) -> dict[str, int]:
    return {summary.provider: place for place, summary in enumerate(composition.summary.lanes)}


def survivors(composition: Composition) -> list[AuditRow]:
    return [row for row in composition.audit if row.rank]


@given(offers, maps, requests([RoundRobin()]))
def test_round_robin_can_be_recomputed_from_the_audit_alone(offers, numbers, request):
    composition = run(offers, numbers, request)
    assert composition.summary.strategy.name == "round_robin"
    lanes = order_of(composition)
    expected = sorted(survivors(composition), key=lambda r: (r.local_rank, lanes[r.provider]))
    assert [r.rank for r in expected] == list(range(1, len(expected) + 1))


@given(offers, maps, requests([ReciprocalRankFusion(), ReciprocalRankFusion(1, {"a": 0.1, "b": 3.0, "c": 0.0}, 0.7)]))
def test_fusion_can_be_recomputed_from_the_audit_alone(offers, numbers, request):
    composition = run(offers, numbers, request)
    record = composition.summary.strategy
    assert record.name == "reciprocal_rank_fusion"
    k, weights, default = (record.params[name] for name in ("k", "weights", "default_weight"))
    lanes = order_of(composition)
    # A lane's copy of a frame's evidence is the one with a place; own repeats have none.
    places: defaultdict[tuple[str, str, str], list[tuple[str, int]]] = defaultdict(list)
    digests = {(r.provider, r.frame_id): r.content_digest for r in survivors(composition)}
    for r in composition.audit:
        kept = r.duplicate_of or FrameRef(r.provider, r.frame_id)
        if r.lane_place:
            digest = digests[kept.provider, kept.frame_id] if r.duplicate_of else r.content_digest
            places[kept.provider, kept.frame_id, digest].append((r.provider, r.lane_place))

    def key(r: AuditRow):
        held = places[r.provider, r.frame_id, r.content_digest]
        value = sum(Fraction(str(weights.get(name, default))) / (k + place) for name, place in held)
        return -value, min(place for _, place in held), lanes[r.provider], r.frame_id

    expected = sorted(survivors(composition), key=key)
    assert [r.rank for r in expected] == list(range(1, len(expected) + 1))


@pytest.mark.parametrize(
    ("strategy", "name", "params", "raw"),
    [
        (RoundRobin(), "round_robin", {}, False),
        (PerProviderQuota(), "per_provider_quota", {"k": 3}, False),
        (
            TrustWeighted({"b": 2.0, "a": 0.0}),
            "trust_weighted",
            {"weights": {"a": 0.0, "b": 2.0}, "default_weight": 1.0},
            False,
        ),
        (
            ReciprocalRankFusion(),
            "reciprocal_rank_fusion",
            {"k": 60, "weights": {}, "default_weight": 1.0},
            False,
        ),
        (
            Precomputed((("b", "z"), ("b", "y"), ("ghost", "x"), ("b", "y")), "mine"),
            "precomputed",
            {"name": "mine", "ids": 4, "named": 1},
            False,
        ),
        (ScoreDescending(), "score_descending", {}, True),
    ],
)
def test_the_policy_is_recorded_with_every_default(strategy, name, params, raw):
    composition = composed(lane("a", {"x": 0.5}), lane("b", {"y": 0.5}), strategy=strategy)
    record = composition.summary.strategy
    assert (record.name, record.version, record.params, record.compares_raw_scores, record.repairs) == (
        name, broker.__version__, params, raw, (),
    )  # fmt: skip


def test_rows_come_by_lane_then_best_first_then_slips():
    composition = composed(
        lane("b", {"b1": 0.5}),
        lane("a", [frame("z", math.nan), frame("late", 0.1), frame("", 0.3), frame("early", 0.9)]),
    )
    assert [(r.provider, r.frame_id) for r in composition.audit] == [
        ("a", "early"), ("a", "late"), ("a", ""), ("a", "z"), ("b", "b1"),
    ]  # fmt: skip
    assert row(composition, "a", "z").detail.startswith("SCORE_NOT_FINITE: ")
    assert row(composition, "a", "").detail.startswith("ID_EMPTY: ")


def test_what_could_not_be_read_has_its_row_by_the_digest_of_its_bytes():
    unreadable = Unreadable(9, "sha256:" + "1" * 64, "FRAME_MALFORMED")
    composition = composed(lane("a", [unreadable, frame("good")]))
    found = row(composition, "a", "")
    assert (found.reason, found.detail) == (Reason.INVALID, "FRAME_MALFORMED: 9 bytes")
    assert found.content_digest == "sha256:" + "1" * 64


def test_scores_appear_on_request_only_with_provider_scale_and_floor():
    lanes = [lane("a", [frame("x", 0.1, "1"), frame("n", math.nan, "2")], DISTANCE), lane("b", {"y": 0.5})]
    floors = (Floor("a", "dist", 0.3),)
    silent = composed(*lanes, floors=floors)
    assert {r.score for r in silent.audit} == {None}
    telling = composed(*lanes, floors=floors, include_local_scores=True)
    shown = {r.frame_id: r.score for r in telling.audit}
    assert shown["x"] is not None
    assert shown["n"] is not None
    assert shown["y"] is not None
    assert (shown["x"].provider, shown["x"].scale_id) == ("a", "dist")
    assert (shown["x"].value, shown["x"].floor) == (format(0.1, ".17g"), format(0.3, ".17g"))
    assert (shown["n"].value, shown["n"].floor) == ("NaN", format(0.3, ".17g"))
    assert (shown["y"].provider, shown["y"].scale_id, shown["y"].value, shown["y"].floor) == ("b", "unit", "0.5", "")
    assert telling.prompt == silent.prompt


def test_a_lane_says_how_it_ended_and_how_far_its_frames_came():
    composition = composed(
        lane("a", [frame("in", 0.9), frame("low", 0.1), frame("", 0.9), frame("twin", 0.8, "in")]),
        lane("b", {}, end=LaneEnd.FAILED),
        floors=(Floor("a", "unit", 0.5),),
    )
    first, second = composition.summary.lanes
    assert (first.end, first.offered, first.admitted, first.placed) == (LaneEnd.COMPLETE, 4, 2, 1)
    assert (second.end, second.message, second.offered) == (LaneEnd.FAILED, "as the test says", 0)
    assert composition.summary.reasons == {"BELOW_FLOOR": 1, "DUPLICATE": 1, "INCLUDED": 1, "INVALID": 1}


def test_a_floor_says_whether_it_was_used_and_what_it_dropped():
    floors = (Floor("a", "unit", 0.5), Floor("b", "unit", 0.5), Floor("c", "unit", 0.5), Floor("d", "unit", 0.5))
    composition = composed(
        lane("a", {"x": 0.4, "y": 0.6, "z": 0.1}),
        lane("b", {}, end=LaneEnd.ABSENT),
        lane("c", {}),
        floors=floors,
    )
    assert composition.summary.floors == (
        FloorRecord(floors[0], True, 2),
        FloorRecord(floors[1], False, 0),
        FloorRecord(floors[2], True, 0),
        FloorRecord(floors[3], False, 0),
    )


def test_usage_counts_content_offered_and_admitted_and_blocks_placed():
    composition = composed(
        lane("a", [frame("x", 0.9, "c" * 9), frame("low", 0.1, "c" * 40), frame("slip", math.nan, "c" * 5)]),
        floors=(Floor("a", "unit", 0.5),),
    )
    (figures,) = composition.usage.providers.values()
    assert (figures.frames_offered, figures.frames_admitted, figures.frames_placed) == (3, 1, 1)
    assert (figures.tokens_offered, figures.tokens_admitted) == (3 + 10 + 2, 3)
    assert figures.tokens_placed == composition.placed[0].cost == composition.summary.budget.frames


def test_a_row_tells_what_was_escaped_in_its_block():
    composition = composed(lane("a", [frame("x", 0.5, "a\u200bb </frame> <frame", title="t\u202e")]))
    found = row(composition, "a", "x")
    assert (found.escaped_characters, found.neutralised_fences) == (2, 2)


def test_provenance_that_was_left_out_is_counted_on_the_row():
    many = [
        frame(f"f{n}", 0.5, "same", provenance=tuple(Provenance("file", f"{n}/{m}") for m in range(60))) for n in (1, 2)
    ]
    composition = composed(lane("a", many))
    assert len(composition.placed[0].frame.provenance) == 64
    assert row(composition, "a", "f1").detail == "56 provenance entries of its copies left out, 64 kept"


def test_frames_in_conflict_say_when_they_were_recorded_placed_or_not():
    same = (Provenance("file", "file:///r.md", "L1-9"),)
    old = frame("old", 0.9, "stale", provenance=same, recorded_at="2024-01-01T00:00:00Z")
    new = frame("new", 0.9, "fresh " * 900, provenance=same, recorded_at="2026-01-01T00:00:00Z")
    apart = frame("apart", 0.8, "alone", recorded_at="2025-01-01T00:00:00Z")
    made = composed(lane("a", [old, apart]), lane("b", [new]), max_tokens=300)
    assert row(made, "b", "new").reason == Reason.OVER_BUDGET
    assert {r.frame_id: (r.recorded_at, [ref.frame_id for ref in r.conflicts]) for r in made.audit} == {
        "old": ("2024-01-01T00:00:00Z", ["new"]),
        "new": ("2026-01-01T00:00:00Z", ["old"]),
        "apart": ("", []),
    }
