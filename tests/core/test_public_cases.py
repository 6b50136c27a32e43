"""What hurt users of other systems comes out right: the cases of public threads that the core alone can show."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from broker.core.audited import Reason
from broker.core.composition import Citation, Placed
from broker.core.floors import floor_violations
from broker.core.frames import FrameRef, Provenance, content_tokens
from broker.core.intake import LaneIntake
from broker.core.lanes import LaneEnd
from broker.core.placement import fold
from broker.core.request import Floor
from broker.core.scores import ScoreScale
from broker.core.strategies import PerProviderQuota, ReciprocalRankFusion, RoundRobin, ScoreDescending, TrustWeighted
from broker.tokenizers.huggingface import HuggingFaceCounter
from tests.core.building import (
    AMPLE,
    ANY,
    AS_SENT,
    DISTANCE,
    ORDINAL,
    POLICY,
    composed,
    excluded,
    frame,
    lane,
    placed,
    ranked,
    row,
)
from tests.tokenizers.making import tokenizer_json

RRF = ReciprocalRankFusion()


def test_c1_a_scale_a_thousand_times_smaller_changes_no_byte():
    first = lane("a", {"a1": 0.7, "a2": 0.65})
    wide, narrow = ScoreScale("bm25", 0.0, 100.0), ScoreScale("bm25", 0.0, 0.1)
    compositions = [
        composed(first, lane("b", {"b1": 12, "b2": 9}, wide)),
        composed(first, lane("b", {"b1": 0.012, "b2": 0.009}, narrow)),
    ]
    assert [ranked(composition) for composition in compositions] == [["a1", "b1", "a2", "b2"]] * 2
    assert compositions[0].prompt == compositions[1].prompt


@pytest.mark.parametrize("scale", [1, 1000])
def test_c2_a_gap_of_a_hair_is_a_rank_and_no_more(scale):
    lanes = [lane("k", {"p": 0.1, "q": 0.0}, ANY), lane("v", {"q": 0.003 * scale, "p": 0.0}, ANY)]
    for strategy in (RoundRobin(), RRF):
        composition = composed(*lanes, strategy=strategy)
        assert [(p.provider, p.frame.id) for p in composition.placed] == [("k", "p"), ("v", "q")]


def test_c3_a_sources_only_hit_does_not_vanish():
    vector = {"e2": 0.9, "e3": 0.8, "e4": 0.7, "e5": 0.6, "e6": 0.5}
    composition = composed(lane("k", {"e1": 3.2}, ANY), lane("v", vector))
    assert ranked(composition) == ["e1", "e2", "e3", "e4", "e5", "e6"]
    assert placed(composition) == ["e1", "e3", "e5", "e6", "e4", "e2"]
    assert excluded(composition) == {}


def test_c4_evidence_of_two_sources_is_placed_once_and_both_vouch():
    composition = composed(lane("a", {"x": 0.99}), lane("b", {"x": 0.97}), strategy=RRF)
    (one,) = composition.placed
    assert one.vouchers == (FrameRef("a", "x"), FrameRef("b", "x"))


def test_c5_nothing_placed_holds_a_number_to_cut_on():
    (one,) = composed(lane("a", {"hit": 0.5}), lane("b", {"hit": 0.5}), strategy=RRF).placed
    assert (one.rank, one.local_rank, one.frame.score) == (1, 1, None)
    assert not [name for kind in (Placed, Citation) for name in kind.__struct_fields__ if "score" in name]


@pytest.mark.parametrize("floor", [0.6])
def test_c7_equal_keeps(floor):
    assert ranked(composed(lane("a", {"a": 0.6}), floors=(Floor("a", "unit", floor),))) == ["a"]


def test_c8_negative_scores_are_scores():
    tens = ScoreScale("tens", -10.0, 10.0)
    assert ranked(composed(lane("a", {"a": -1.0, "b": -3.0}, tens), lane("b", {"c": 0.2}))) == ["a", "c", "b"]


def test_c9_a_distance_is_better_when_lower_and_only_then():
    assert ranked(composed(lane("a", {"a": 0.1, "b": 0.9}, DISTANCE))) == ["a", "b"]
    assert ranked(composed(lane("a", {"a": 0.1, "b": 0.9}))) == ["b", "a"]


@pytest.mark.parametrize("kind", [lambda weights: ReciprocalRankFusion(60, weights), TrustWeighted])
def test_c10_weight_zero_is_last_resort_not_exclusion(kind):
    lanes = [lane("a", {"a": 0.9}), lane("b", {"z": 0.1})]
    assert ranked(composed(*lanes, strategy=kind({"a": 0.0, "b": 1.0}))) == ["z", "a"]


def test_c11_a_source_that_repeats_itself_is_credited_once():
    repeated = lane("a", [frame(f"s{n}", 0.9 - n / 10, "S") for n in range(3)])
    lanes = [repeated, lane("b", {"T": 0.5}), lane("c", {"T": 0.5})]
    assert ranked(composed(*lanes, strategy=RRF)) == ["T", "s0"]
    composition = composed(*lanes)
    assert ranked(composition) == ["s0", "T"]
    assert {row(composition, "a", name).duplicate_of for name in ("s1", "s2")} == {FrameRef("a", "s0")}
    assert [composition.summary.reasons[Reason.DUPLICATE], excluded(composition)["s1"]] == [3, Reason.DUPLICATE]


def test_c12_fusion_is_the_sum_and_not_the_best():
    lanes = [lane("a", {"p": 0.9, "q": 0.8}), lane("b", {"r": 0.9, "q": 0.8})]
    assert ranked(composed(*lanes, strategy=RRF)) == ["q", "p", "r"]
    assert ranked(composed(*lanes)) == ["p", "r", "q"]


def test_c13_the_constant_decides_between_one_first_and_two_fifths():
    lanes = [
        lane("a", {"s": 0.9, "a2": 0.8, "a3": 0.7, "a4": 0.6, "m": 0.5}),
        lane("b", {"b1": 0.9, "b2": 0.8, "b3": 0.7, "b4": 0.6, "m": 0.5}),
    ]
    assert ranked(composed(*lanes, strategy=RRF))[0] == "m"
    assert ranked(composed(*lanes, strategy=ReciprocalRankFusion(2)))[:3] == ["s", "b1", "m"]
    robin = ranked(composed(*lanes))
    assert (robin[0], robin[-1]) == ("s", "m")


def test_c14_an_id_that_is_falsy_elsewhere_is_an_id():
    composition = composed(lane("a", [frame("a", 0.5), frame("42", 0.5), frame("0", 0.5), frame("", 0.5, "c")]))
    assert ranked(composition) == ["0", "42", "a"]
    assert row(composition, "a", "").detail.startswith("ID_EMPTY")


def test_c15_the_number_of_batches_is_nothing():
    frames = [frame(f"f{n}", n % 3 / 3) for n in range(12)]
    compositions = []
    for batches in (1, 4):
        intake = LaneIntake("a", ANY, AMPLE)
        for batch in range(batches):
            intake.take(frames[batch::batches])
        compositions.append(composed(intake.close(LaneEnd.COMPLETE), lane("b", {"f1": 0.5, "z": 0.1}), strategy=RRF))
    assert compositions[0] == compositions[1]


def test_c16_no_sources_metadata_is_lost():
    ours, theirs = Provenance("file", "a"), Provenance("file", "b")
    (one,) = composed(
        lane("a", [frame("x", 0.5, provenance=(ours,))]), lane("b", [frame("x", 0.5, provenance=(theirs,))])
    ).placed
    assert (one.provider, one.frame.provenance) == ("a", (ours, theirs))
    assert [voucher.provider for voucher in one.vouchers] == ["a", "b"]


def test_c17_one_text_in_two_documents_stands_once_and_cites_both():
    documents = [Provenance("file", f"file:///{n}") for n in (1, 2)]
    lanes = [lane(p, [frame("x", 0.5, "text", provenance=(d,))]) for p, d in zip("ab", documents, strict=True)]
    composition = composed(*lanes)
    assert composition.prompt.count("\ntext\n") == 1
    assert composition.placed[0].frame.provenance == tuple(documents)


def test_c18_two_passages_of_one_file_are_both_kept():
    whole = Provenance("file", "file:///same")
    frames = [frame("c1", 0.9, "one", provenance=(whole,)), frame("c2", 0.8, "two", provenance=(whole,))]
    assert ranked(composed(lane("a", frames))) == ["c1", "c2"]


def test_c19_nearly_equal_is_not_equal():
    lanes = [lane("a", [frame("x", 0.5, "a b c d")]), lane("b", [frame("y", 0.5, "a  B c d ")])]
    assert ranked(composed(*lanes)) == ["x", "y"]


def test_c20_reposts_take_no_place():
    percent = ScoreScale("percent", 0.0, 100.0)
    frames = [frame(f"a{n}", 91.0 - n, "a1" if n == 2 else None) for n in range(1, 6)]
    composition = composed(lane("a", frames, percent), lane("b", {"b1": 0.3}), max_frames=3)
    assert [p.frame.id for p in sorted(composition.placed, key=lambda p: p.rank)] == ["a1", "b1", "a3"]
    assert excluded(composition) == {
        "a2": Reason.DUPLICATE, "a4": Reason.FRAME_LIMIT, "a5": Reason.FRAME_LIMIT,
    }  # fmt: skip


@pytest.mark.parametrize("strategy", [RoundRobin(), RRF, PerProviderQuota(), TrustWeighted()])
def test_c21_a_tie_between_lanes_goes_by_their_order(strategy):
    lanes = [lane("b", {"y": 0.9}), lane("a", {"x": 0.1})]
    assert ranked(composed(*lanes, strategy=strategy)) == ["x", "y"]


def test_c23_the_best_is_first_for_an_even_number_too():
    assert fold([1, 2, 3, 4, 5, 6]) == [1, 3, 5, 6, 4, 2]


def test_c26_lanes_say_how_far_each_came():
    composition = composed(
        lane("a", {"a1": 0.9, "a2": 0.8}, end=LaneEnd.PARTIAL),
        lane("b", {}, end=LaneEnd.FAILED),
        lane("c", {"c1": 0.5}),
    )
    assert [(summary.end.value, summary.offered) for summary in composition.summary.lanes] == [
        ("PARTIAL", 2), ("FAILED", 0), ("COMPLETE", 1),
    ]  # fmt: skip


def test_c30_no_block_past_the_budget_is_rendered():
    whole = composed(
        lane("a", [frame("big", 0.9, "b" * 150), frame("mid", 0.8, "m" * 120), frame("low", 0.7, "l" * 40)])
    )
    costs = {p.frame.id: p.cost for p in whole.placed}
    budget = whole.summary.budget
    space = costs["big"] + costs["low"]
    assert costs["low"] < costs["mid"]
    composition = composed(
        lane("a", [frame("big", 0.9, "b" * 150), frame("mid", 0.8, "m" * 120), frame("low", 0.7, "l" * 40)]),
        max_tokens=budget.preamble + budget.closing + space,
    )
    assert placed(composition) == ["big", "low"]
    left_out = row(composition, "a", "mid")
    assert (left_out.reason, left_out.cost, left_out.remaining) == (Reason.OVER_BUDGET, costs["mid"], costs["low"])
    assert composition.summary.budget.used == composition.summary.budget.max_tokens


def test_c31_grants_of_two_lanes_do_not_break_the_whole_budget():
    lanes = [lane("a", [frame("x", 0.5, "x" * 240)]), lane("b", [frame("y", 0.5, "y" * 240)])]
    composition = composed(*lanes, max_tokens=200)
    assert (placed(composition), excluded(composition)) == (["x"], {"y": Reason.OVER_BUDGET})
    assert content_tokens(len(composition.prompt.encode())) <= 200


def test_c32_packing_charges_the_rendered_block_and_names_its_counter():
    composition = composed(lane("a", [frame("x", 0.5, "c" * 8, token_cost=2)]))
    assert composition.summary.budget.counter == "bytes/4"
    assert composition.placed[0].cost == content_tokens(len(composition.placed[0].rendered.encode())) > 2
    named = HuggingFaceCounter("words", "sha256:0", tokenizer_json())
    counted = composed(
        lane("a", [frame("x", 0.5, "c" * 8, token_cost=2)]),
        policy=replace(POLICY, counters={"words": named}),
        tokenizer="words",
    )
    assert counted.summary.budget.counter == "words sha256:0"
    assert counted.placed[0].cost == named.count(counted.placed[0].rendered) != composition.placed[0].cost
    assert lane("a", [frame("x", 0.5, "c" * 8, token_cost=1)]).lie is not None, "checked against bytes/4 all the same"


@pytest.mark.parametrize("strategy", [*ORDINAL, ScoreDescending()])
def test_c34_one_nan_spoils_nothing(strategy):
    composition = composed(lane("a", {"a": 0.9, "n": math.nan, "b": 0.8, "c": 0.85}), strategy=strategy)
    assert ranked(composition) == ["a", "c", "b"]
    assert (row(composition, "a", "n").reason, row(composition, "a", "n").detail.split(":")[0]) == (
        Reason.INVALID,
        "SCORE_NOT_FINITE",
    )


def test_c35_one_missing_score_is_a_slip_and_none_at_all_is_the_order_sent():
    composition = composed(lane("a", {"a": 0.9, "b": None}), lane("b", {"c": 0.4}))
    assert ranked(composition) == ["a", "c"]
    assert row(composition, "a", "b").detail.startswith("SCORE_MISSING")
    assert ranked(composed(lane("a", {"z": None, "y": None, "x": None}, AS_SENT))) == ["z", "y", "x"]
    assert floor_violations([Floor("a", "none", 0.0)], {"a": AS_SENT})[0].reason == "FLOOR_UNSCORED"
