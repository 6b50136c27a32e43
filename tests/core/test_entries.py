"""Lanes and the frames in them stand in one order, whatever came first."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.entries import best_first, in_lane_order
from broker.core.frames import Provenance, Relation, content_digest
from broker.core.scores import UNIT
from tests.core.building import AS_SENT, DISTANCE, frame, lane


def order(made) -> list[str]:
    return [entry.candidate.frame.id for entry in best_first(made, 0)]


def test_lanes_come_as_configured_then_by_name():
    lanes = [lane(name, {}) for name in ("zeta", "b", "a", "mid", "b2", "b10")]
    names = [made.provider for made in in_lane_order(lanes, ("mid", "unknown", "zeta"))]
    assert names == ["mid", "zeta", "a", "b", "b10", "b2"]


def test_two_lanes_of_one_provider_are_a_fault():
    with pytest.raises(ValueError, match="two lanes of 'a'"):
        in_lane_order([lane("a", {}), lane("b", {}), lane("a", {})], ())


def test_frames_come_by_score_then_by_id_in_byte_order():
    assert order(lane("a", {"b": 0.5, "a": 0.5, "10": 0.5, "2": 0.5, "é": 0.5, "Z": 0.5, "best": 0.9})) == [
        "best", "10", "2", "Z", "a", "b", "é",
    ]  # fmt: skip
    assert order(lane("a", {"\ue000": 0.5, "\U0001f600": 0.5})) == ["\ue000", "\U0001f600"]


def test_lower_is_better_where_the_scale_says_so():
    assert order(lane("a", {"far": 1.9, "near": 0.1}, DISTANCE)) == ["near", "far"]


def test_zero_of_either_sign_is_one_score():
    assert order(lane("a", {"b": 0.0, "a": -0.0})) == ["a", "b"]


def test_an_absent_digest_comes_before_a_declared_one():
    declared = frame("x", 0.5, "c", content_digest=content_digest("c"))
    for frames in ([declared, replace(declared, content_digest="")], [replace(declared, content_digest=""), declared]):
        assert [e.candidate.frame.content_digest for e in best_first(lane("a", frames), 0)] == ["", content_digest("c")]


def test_frames_of_one_id_and_content_stand_alike_in_every_order_of_arrival():
    base = frame("x", 0.5, "same")
    frames = [
        base,
        replace(base, title="other"),
        replace(base, kind="fact"),
        replace(base, uri="u"),
        replace(base, provenance=(Provenance("file", "u"),)),
        replace(base, relations=(Relation("calls"),)),
    ]
    orders = {
        tuple(entry.candidate.frame for entry in best_first(lane("a", some), 0))
        for some in itertools.permutations(frames)
    }
    assert len(orders) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, -0.0, 0.5, 1.0]), st.sampled_from("abc"), st.booleans(), st.text(max_size=1))
    )
)
def test_the_order_is_that_of_one_sort_by_score_then_id_then_digest_then_all_else(sent):
    frames = [
        frame(name, score, name, title=title or "t", content_digest=content_digest(name) if declared else "")
        for score, name, declared, title in sent
    ]
    for scale, sign in ((UNIT, -1), (DISTANCE, 1)):
        expected = sorted(frames, key=lambda f: (sign * f.score, f.id, f.content_digest, f.title))
        assert [entry.candidate.frame for entry in best_first(lane("a", frames, scale), 0)] == expected


def test_frames_without_scores_come_as_sent():
    assert order(lane("a", {"z": None, "a": None, "m": None}, AS_SENT)) == ["z", "a", "m"]
