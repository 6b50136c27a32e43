"""The comparison says who is starved exactly when a policy places nothing of a provider that the other one places."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from broker.cli.compare import comparison_lines, comparison_record, shares, verdict_lines
from broker.cli.output import Style
from broker.cli.text import width
from broker.core.audited import AuditRow, AuditScore

FAIR = ["files", "symbols", "history"] * 2


def _pair(compose_by_hand, raw):
    return compose_by_hand(raw, strategy="score_descending"), compose_by_hand(FAIR)


@pytest.mark.parametrize(
    ("raw", "starved", "squeezed"),
    [
        (["history"] * 6, ["files", "symbols"], []),
        (["history"] * 4 + ["files"] * 2, ["symbols"], []),
        (["history"] * 3 + ["files", "symbols", "symbols"], [], []),
        (FAIR, [], []),
    ],
)
def test_starved_and_squeezed(compose_by_hand, raw, starved, squeezed):
    found = shares(*_pair(compose_by_hand, raw))
    assert [share.provider for share in found if share.starved] == starved
    assert [share.provider for share in found if share.squeezed] == squeezed


def test_less_than_half_is_squeezed(compose_by_hand):
    first = compose_by_hand(["history"] * 8 + ["files"] + ["symbols"] * 3, strategy="score_descending")
    found = shares(first, compose_by_hand(["files", "symbols", "history"] * 4))
    assert [(share.provider, share.squeezed) for share in found] == [
        ("files", True),
        ("symbols", False),
        ("history", False),
    ]


def test_the_verdict_names_the_starved_and_who_takes_the_room(compose_by_hand):
    text = " ".join(verdict_lines(*_pair(compose_by_hand, ["history"] * 4 + ["files"] * 2)))
    assert "score_descending STARVES symbols: of 0 frames" in text
    assert "round_robin places 2" in text
    assert "The room goes to history." in text


def test_no_starving_is_said_honestly(compose_by_hand):
    text = " ".join(verdict_lines(*_pair(compose_by_hand, FAIR)))
    assert "starves no provider here" in text
    assert "STARVES" not in text


@pytest.mark.parametrize(
    ("ranked", "says"), [([], "no provider had anything to place"), (["files"] * 3, "only files had anything to place")]
)
def test_a_comparison_of_fewer_than_two_providers_claims_nothing(compose_by_hand, ranked, says):
    text = " ".join(verdict_lines(compose_by_hand(ranked, strategy="score_descending"), compose_by_hand(ranked)))
    assert says in text
    assert "starve" not in text.lower()


def test_the_best_scores_of_both_sides_are_told_where_they_were_asked_for(compose_by_hand):
    row = AuditRow(
        provider="symbols",
        frame_id="s",
        content_digest="",
        included=False,
        reason="OVER_BUDGET",
        lane_place=1,
        score=AuditScore("symbols", "unit", "0.5"),
    )
    first = compose_by_hand(["history"] * 4, strategy="score_descending", scores=True, extra_rows=[row])
    text = " ".join(verdict_lines(first, compose_by_hand(FAIR)))
    assert "The best of symbols has unit 0.5, the best of history matches 0.1235" in text


def test_the_table_has_a_row_for_every_provider_and_fits(compose_by_hand):
    lines = list(comparison_lines(*_pair(compose_by_hand, ["history"] * 6), Style()))
    assert all(width(line) <= 100 for line in lines)
    rows = {line.split()[0]: line for line in lines[2:]}
    assert list(rows) == ["files", "symbols", "history", "in"]
    assert re.search(r"history +6 +6 +600 +█+ +2 +200 +█+", rows["history"])
    assert re.search(r"files +0 +0 +0 +2 +200 +█+", rows["files"])


def test_the_record_says_the_same(compose_by_hand):
    record = comparison_record(*_pair(compose_by_hand, ["history"] * 6))
    assert record["strategies"] == ["score_descending", "round_robin"]
    assert record["starved"] == ["files", "symbols"]
    assert record["providers"][2] == {
        "provider": "history",
        "offered": 6,
        "placed": [
            {"strategy": "score_descending", "frames": 6, "tokens": 600},
            {"strategy": "round_robin", "frames": 2, "tokens": 200},
        ],
        "starved": False,
        "squeezed": False,
    }


def test_a_score_that_is_negated_before_it_is_compared_says_so(compose_by_hand):
    def row(provider, scale, value):
        score = AuditScore(provider, scale, value)
        return AuditRow(
            provider=provider, frame_id="b", content_digest="", included=False, lane_place=1, score=score, reason="X"
        )

    raw = compose_by_hand(["files"] * 6, strategy="score_descending")
    first = replace(raw, audit=(row("symbols", "unit", "0.65"), row("files", "bm25", "-33.84")))
    text = " ".join(verdict_lines(first, compose_by_hand(FAIR)))
    assert "symbols has unit 0.65, the best of files bm25 -33.84 (lower is better, so it is negated)" in text
