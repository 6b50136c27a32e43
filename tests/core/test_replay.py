"""A composition works out again from its own audit, and a change to any part of it is found by its stage."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.audited import AuditRow, Reason
from broker.core.checks import MOST_DIFFERENCES, Verdict
from broker.core.compose import compose, finish
from broker.core.composition import Composition
from broker.core.frames import FrameRef
from broker.core.plan import rank_lanes
from broker.core.replay import replay
from broker.core.request import CompositionRequest, Duplicates, Floor, Rerank
from broker.core.rerank import Reranked
from broker.core.strategies import Precomputed, ReciprocalRankFusion, ScoreDescending
from broker.errors import InvalidArgument
from tests.core.building import POLICY, composed, frame, lane
from tests.core.offers import maps, offers, requests

STAGES = ["lane_order", "floors", "duplicates", "ranking", "rerank", "packing", "placement"]
STAGES += ["blocks", "texts", "labels", "budget", "audit", "usage"]


def verdicts(composition: Composition, request: CompositionRequest | None = None) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in replay(composition, request)}


def differing(composition: Composition, request: CompositionRequest | None = None) -> set[str]:
    return {name for name, verdict in verdicts(composition, request).items() if verdict is Verdict.DIFFERS}


@given(offers, maps, requests(), st.booleans(), st.booleans())
def test_whatever_was_composed_agrees(offered, numbers, request, scores, known):
    floors = tuple(floor for one in offered for floor in one.floors(numbers[one.provider]))
    request = replace(request, floors=floors, include_local_scores=scores)
    try:
        made = compose([one.lane(numbers[one.provider]) for one in offered], request, POLICY)
    except InvalidArgument:
        return
    found = verdicts(made, request if known else None)
    assert list(found) == STAGES
    assert Verdict.DIFFERS not in found.values()
    # With scores and the request nothing is left open.
    if scores and known:
        assert set(found.values()) == {Verdict.AGREES}


@given(offers, maps, requests(), st.integers(1, 8), st.none() | st.integers(1, 8), st.data())
def test_what_was_reranked_agrees(offered, numbers, request, candidates, top_n, data):
    top_n = None if top_n is None else min(top_n, candidates)
    asked = Rerank("some", candidates, top_n, data.draw(st.none() | st.sampled_from([0.0, 0.5])))
    request = replace(request, rerank=asked)
    try:
        plan = rank_lanes([one.lane(numbers[one.provider]) for one in offered], request, POLICY)
    except InvalidArgument:
        return
    score = st.none() | st.sampled_from([0.0, 0.25, 0.5, 1 / 3])
    scores = tuple(data.draw(score) for _ in plan.candidates)
    made = finish(plan, Reranked(data.draw(st.sampled_from([scores, None])), message="why not"))
    assert differing(made, request) == set()
    assert verdicts(made)["rerank"] is Verdict.AGREES


def sample(**options) -> Composition:
    """Three lanes with shared evidence and pressure."""
    lanes = (
        lane("a", [frame("a1", 0.9, "one"), frame("a2", 0.8, "two"), frame("a3", 0.7, "x" * 900), frame("a4", 0.1)]),
        lane("b", [frame("b1", 0.9, "two"), frame("b2", 0.5, "three \u202e <frame>")]),
        lane("c", [frame("c1", 0.4, "four"), frame("c2", 0.3, "slip", title="")]),
    )
    return composed(
        *lanes, **{"max_tokens": 350, "include_local_scores": True, "floors": (Floor("a", "unit", 0.2),)} | options
    )


def with_rows(composition: Composition, change: Callable[[AuditRow], AuditRow]) -> Composition:
    return replace(composition, audit=tuple(map(change, composition.audit)))


def of(frame_id: str, **changes) -> Callable[[Composition], Composition]:
    """Changes the row of one frame."""
    return lambda one: with_rows(one, lambda row: replace(row, **changes) if row.frame_id == frame_id else row)


def of_placed(**changes) -> Callable[[Composition], Composition]:
    """Changes the frame at the top of the prompt."""
    return lambda one: replace(one, placed=(replace(one.placed[0], **changes), *one.placed[1:]))


def swapped(one: Composition) -> Composition:
    """Ranks 1 and 2 change places everywhere."""
    turn = {1: 2, 2: 1}
    made = with_rows(one, lambda row: replace(row, rank=turn.get(row.rank, row.rank)))
    return replace(made, placed=tuple(replace(p, rank=turn.get(p.rank, p.rank)) for p in one.placed))


def turned(one: Composition) -> Composition:
    """The prompt upside down, numbered from the top all the same."""
    total = len(one.placed)
    made = with_rows(one, lambda row: replace(row, position=total + 1 - row.position if row.position else 0))
    return replace(made, placed=tuple(replace(p, position=total + 1 - p.position) for p in reversed(one.placed)))


def summed(**changes) -> Callable[[Composition], Composition]:
    return lambda one: replace(one, summary=replace(one.summary, **changes))


CHANGES = [
    (swapped, "ranking"),
    (turned, "placement"),
    (of("a1", local_rank=3), "duplicates"),
    (of("b1", duplicate_of=FrameRef("a", "a1")), "duplicates"),
    (of("b1", duplicate_of=FrameRef("a", "gone")), "ranking"),
    (of("a3", cost=3), "packing"),
    (of("a3", remaining=3), "packing"),
    (of("a3", reason=Reason.FRAME_LIMIT), "packing"),
    (of("a1", content_digest="sha256:" + "0" * 64), "blocks"),
    (of("b2", neutralised_fences=0), "blocks"),
    (of("b2", role_tokens=1), "blocks"),
    (of("a1", rerank_score="0.5"), "rerank"),
    (of("a4", reason=Reason.OVER_BUDGET), "floors"),
    (of("c2", reason=Reason.OVER_BUDGET), "audit"),
    (of("a1", provider="nobody"), "ranking"),
    (lambda one: replace(one, audit=one.audit[:-1]), "audit"),
    (lambda one: replace(one, audit=(one.audit[1], one.audit[0], *one.audit[2:])), "lane_order"),
    (of_placed(rendered='<frame provider="a">\nother\n</frame>\n'), "blocks"),
    (of_placed(cost=1), "budget"),
    (of_placed(citation_label="another"), "labels"),
    (of_placed(local_rank=2), "audit"),
    (lambda one: replace(one, citations=one.citations[1:]), "labels"),
    (lambda one: replace(one, preamble=one.preamble + " "), "texts"),
    (lambda one: replace(one, closing=one.closing + "more than was said, and many tokens of it\n"), "budget"),
    (lambda one: summed(rows=3)(one), "audit"),
    (lambda one: summed(reasons={})(one), "audit"),
    (lambda one: summed(budget=replace(one.summary.budget, max_tokens=200))(one), "budget"),
    (lambda one: summed(budget=replace(one.summary.budget, usable=200))(one), "packing"),
    (lambda one: summed(budget=replace(one.summary.budget, safety_factor=2.0))(one), "budget"),
    (of("a1", tokens=2), "usage"),
    (of("a4", tokens=2), "usage"),
    (of("a1", admitted=False), "audit"),
    (lambda one: summed(placement_asked="AUTO", fold_min_tokens=4096)(one), "placement"),
    (lambda one: summed(placement="REVERSE_RANK")(one), "placement"),
    (lambda one: summed(floors=())(one), "floors"),
    (lambda one: summed(lanes=one.summary.lanes * 2)(one), "packing"),
    (lambda one: replace(one, usage=replace(one.usage, total=replace(one.usage.total, tokens_placed=1))), "usage"),
    (lambda one: replace(one, usage=replace(one.usage, providers={})), "usage"),
]


@pytest.mark.parametrize(("change", "stage"), CHANGES)
def test_a_change_is_found_by_the_stage_that_it_belongs_to(change, stage):
    made = sample()
    request = CompositionRequest(max_tokens=350, floors=(Floor("a", "unit", 0.2),), include_local_scores=True)
    assert differing(made, request) == set()
    changed = change(made)
    assert changed != made
    assert stage in differing(changed, request)


def test_differences_are_told_and_bounded():
    made = composed(lane("a", [frame(f"f{n:02}", 1 - n / 100, title=f"t{n}") for n in range(20)]))
    upside_down = with_rows(made, lambda row: replace(row, rank=21 - row.rank))
    (check,) = [one for one in replay(upside_down) if one.name == "ranking"]
    assert len(check.differences) == MOST_DIFFERENCES
    assert check.differences[0] == "a/f00 has rank 20, and comes at 1"


@pytest.mark.parametrize(
    ("options", "name", "words"),
    [
        ({"strategy": ScoreDescending()}, "ranking", "no scores"),
        ({}, "lane_order", "no scores"),
        ({}, "floors", "no scores"),
        ({}, "texts", "not in the document"),
    ],
)
def test_what_the_document_does_not_hold_is_said_and_not_guessed(options, name, words):
    (check,) = [one for one in replay(sample(include_local_scores=False, **options)) if one.name == name]
    assert check.verdict is Verdict.NOT_RECOMPUTED
    assert words in check.limits


def test_a_policy_or_placement_that_is_not_known_is_not_recomputed():
    made = sample()
    unknown = replace(made.summary, strategy=replace(made.summary.strategy, name="theirs"), placement="SPIRAL")
    found = verdicts(replace(made, summary=unknown))
    assert (found["ranking"], found["placement"]) == (Verdict.NOT_RECOMPUTED, Verdict.NOT_RECOMPUTED)


def test_what_a_later_version_rendered_is_not_recomputed():
    made = sample()
    found = verdicts(summed(render=replace(made.summary.render, mode="SONNET"))(made))
    assert {found[name] for name in ("blocks", "texts", "labels")} == {Verdict.NOT_RECOMPUTED}


@pytest.mark.parametrize("params", [{}, {"k": "many", "weights": {}}, {"k": 60, "weights": [], "default_weight": 1}])
def test_parameters_of_another_policy_are_a_contradiction(params):
    made = sample(strategy=ReciprocalRankFusion())
    record = replace(made.summary.strategy, params=params)
    assert "ranking" in differing(summed(strategy=record)(made))


def test_sources_of_frames_left_out_are_not_guessed():
    check = next(one for one in replay(sample(duplicates=Duplicates.SAME_BYTES_OR_SOURCE)) if one.name == "duplicates")
    assert check.verdict is Verdict.AGREES
    assert "equal bytes alone" in check.limits


def test_equal_bytes_that_are_both_kept_are_found_under_either_mode():
    made = sample(duplicates=Duplicates.SAME_BYTES_OR_SOURCE)
    both = with_rows(made, lambda row: replace(row, content_digest=made.audit[0].content_digest))
    assert "duplicates" in differing(both)


def test_a_callers_order_is_held_against_the_request_where_it_is_known():
    order = Precomputed((("c", "c1"), ("b", "b2")), "mine")
    made = sample(strategy=order)
    other = CompositionRequest(max_tokens=350, strategy=Precomputed((("b", "b2"), ("c", "c1")), "mine"))
    assert "ranking" not in differing(made)
    assert "ranking" in differing(made, other)
    (check,) = [one for one in replay(made) if one.name == "ranking"]
    assert "ranks 1 to 2 are taken as they are" in check.limits
