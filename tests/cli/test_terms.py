"""The terms of a composition name what was asked, what came of it, and whatever got in its way."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from broker.cli.output import Style
from broker.cli.show import composition_lines
from broker.cli.terms import placement_text, policy_lines, render_text, roles_text
from broker.cli.text import width
from broker.core.audited import FloorRecord, LimitConflict, RenderRecord, RerankOutcome, RerankRecord
from broker.core.composition import Composition
from broker.core.request import Floor


def _page(composition: Composition) -> str:
    return "\n".join(composition_lines(composition, Style()))


def told(composition: Composition, **summary: object) -> str:
    """The terms of a composition whose summary says this."""
    return "\n".join(policy_lines(replace(composition, summary=replace(composition.summary, **summary)), Style()))


def test_the_budget_line_adds_up(compose_by_hand):
    text = "\n".join(policy_lines(compose_by_hand(), Style()))
    assert "725 of 1,000 tokens" in text
    assert "preamble 20 + frames 700 + closing 5" in text


def test_parameters_floors_and_repairs_are_told(compose_by_hand):
    composition = compose_by_hand(strategy="trust_weighted", params={"weights": {"files": 2.5}, "default_weight": 1.0})
    strategy = replace(composition.summary.strategy, repairs=("index 9 is none",))
    floors = (FloorRecord(Floor("files", "bm25", -2.5), True, 3), FloorRecord(Floor("gone", "unit", 0.5), False, 0))
    composition = replace(composition, summary=replace(composition.summary, strategy=strategy, floors=floors))
    text = "\n".join(policy_lines(composition, Style()))
    assert "trust_weighted(weights={files=2.5}, default_weight=1)" in text
    assert "repaired: index 9 is none" in text
    assert "files: bm25 -2.5  dropped 3 frames" in text
    assert "gone: unit 0.5  unused" in text


RERANK = RerankRecord(
    name="lexical",
    version="0.1",
    candidates=50,
    scored=5,
    unscored=2,
    top_n=10,
    min_score=0.25,
    outcome=RerankOutcome.APPLIED,
)


def reranked(composition, **record):
    summary = replace(composition.summary, rerank=replace(RERANK, **record))
    return replace(composition, summary=summary)


def test_a_rerank_is_told_with_its_parameters_and_what_it_gave_no_score(compose_by_hand):
    lines = list(policy_lines(reranked(compose_by_hand()), Style()))
    assert "rerank    lexical(candidates=50, top_n=10, min_score=0.25)  0.1" in lines
    assert "          2 candidates without a score, behind the others in the order before" in lines
    assert "rerank" not in _page(compose_by_hand())


def test_a_rerank_that_failed_says_so(compose_by_hand):
    failed = reranked(
        compose_by_hand(), outcome=RerankOutcome.FALLBACK, message="it answered UNAVAILABLE", top_n=None, min_score=None
    )
    text = "\n".join(policy_lines(failed, Style()))
    assert "rerank    lexical(candidates=50)  0.1" in text
    assert "not applied, the order before stands: it answered UNAVAILABLE" in text
    assert "without a score" not in text


def test_a_reranker_of_many_words_keeps_to_the_page(compose_by_hand):
    loud = {"name": "n" * 63, "version": "v" * 129, "outcome": RerankOutcome.FALLBACK, "message": "why\x1b " * 60}
    for line in composition_lines(reranked(compose_by_hand(), **loud), Style()):
        assert width(line) <= 100
        assert "\x1b" not in line


def test_an_empty_parameter_is_not_shown(compose_by_hand):
    params = {"ids": 1, "name": "", "named": 0}
    text = "\n".join(policy_lines(compose_by_hand(strategy="precomputed", params=params), Style()))
    assert "precomputed(ids=1, named=0)" in text


def test_what_is_usual_takes_no_line(compose_by_hand):
    assert [line.split()[0] for line in policy_lines(compose_by_hand(), Style())] == ["strategy", "budget"]


def test_a_safety_factor_a_tokenizer_and_a_split_stand_by_the_budget(compose_by_hand):
    composition = compose_by_hand()
    budget = replace(
        composition.summary.budget,
        usable=800,
        safety_factor=1.25,
        counter=f"o200k_base sha256:{'f' * 64}",
        split="WEIGHTED",
    )
    text = told(composition, budget=budget)
    assert "725 of 800 tokens (1,000 by the safety factor 1.25)" in text
    assert "counted by o200k_base" in text
    assert f"sha256:{'f' * 64}" in text
    assert "split WEIGHTED" in text
    assert all(width(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize(
    ("applied", "asked", "text"),
    [
        ("FOLD", "FOLD", "FOLD"),
        ("FOLD", "AUTO", "FOLD: AUTO, for a prompt of at least 4,096 tokens"),
        ("RANK_ORDER", "AUTO", "RANK_ORDER: AUTO, for a prompt shorter than 4,096 tokens"),
    ],
)
def test_a_placement_that_was_left_open_is_told_with_what_it_came_to(compose_by_hand, applied, asked, text):
    composition = compose_by_hand()
    summary = replace(composition.summary, placement=applied, placement_asked=asked, fold_min_tokens=4096)
    assert placement_text(summary) == text
    assert f"placement {text}" in _page(replace(composition, summary=summary))


@pytest.mark.parametrize(
    ("render", "text"),
    [
        (RenderRecord(mode="MARKDOWN"), "MARKDOWN, sealed fence"),
        (RenderRecord(mode="JSON", fence=""), "JSON"),
        (RenderRecord(fence="PLAIN", restated_question=True), "FENCED, plain fence, question restated"),
    ],
)
def test_another_form_of_the_context_is_told(compose_by_hand, render, text):
    assert render_text(render) == text
    assert f"render    {text}" in told(compose_by_hand(), render=render).splitlines()


def test_limits_that_others_overrode_are_told_with_their_figures(compose_by_hand):
    conflict = LimitConflict("max_frames", "max_frames_per_provider", f"max_frames is 9, and {'2 lanes ' * 20}")
    lines = told(compose_by_hand(), limit_conflicts=(conflict,)).splitlines()
    (first,) = [index for index, line in enumerate(lines) if line.startswith("limit ")]
    assert lines[first].startswith("limit     max_frames yields to max_frames_per_provider: max_frames is 9")
    assert all(width(line) <= 100 for line in lines)
    assert "".join(lines[first:]).count("lanes") == 20


def test_role_tokens_are_counted_over_placed_frames_alone(compose_by_hand):
    composition = compose_by_hand(left_out=["files"])
    assert roles_text(composition) == ""
    rows = tuple(replace(row, role_tokens=index % 2 * 3) for index, row in enumerate(composition.audit))
    marked = replace(composition, audit=rows)
    assert roles_text(marked) == "9 role tokens of chat formats in 3 frames, which stand as data"
    assert f"roles     {roles_text(marked)}" in _page(marked)
