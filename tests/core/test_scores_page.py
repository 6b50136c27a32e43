"""The page about scores shows what really happens: its tables are made here, from real compositions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import broker
from broker.core.composition import Composition
from broker.core.request import Floor
from broker.core.strategies import (
    CATALOGUE,
    PerProviderQuota,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    Strategy,
    TrustWeighted,
    info_of,
)
from tests.core.building import composed, lane

PAGE = Path(broker.__file__).parent / "core" / "SCORES.md"
ROOT = Path(broker.__file__).resolve().parents[1]
VECTORS = {"v1": 0.95, "v2": 0.93, "v3": 0.91, "v4": 0.89, "v5": 0.88, "v6": 0.86}
TICKETS = {"t1": 0.40, "t2": 0.35, "t3": 0.31, "t4": 0.22}
SHOWN: dict[str, Strategy] = {
    "score_descending": ScoreDescending(),
    "round_robin": RoundRobin(),
    "per_provider_quota, k = 3": PerProviderQuota(3),
    "trust_weighted, tickets = 2": TrustWeighted({"tickets": 2.0}),
    "reciprocal_rank_fusion, k = 60": ReciprocalRankFusion(60),
    "precomputed, t3 v1": Precomputed((("tickets", "t3"), ("vectors", "v1"))),
}


def run(strategy: Strategy, **request) -> Composition:
    return composed(lane("vectors", VECTORS), lane("tickets", TICKETS), strategy=strategy, max_frames=4, **request)


def best_first(composition: Composition) -> list[str]:
    return [one.frame.id for one in sorted(composition.placed, key=lambda one: one.rank)]


def table() -> list[str]:
    lines = ["| strategy | compares raw scores | placed, best first | vectors | tickets |", "|---|---|---|---|---|"]
    for name, strategy in SHOWN.items():
        found = best_first(run(strategy))
        flag = "**yes**" if info_of(strategy).compares_raw_scores else "no"
        counts = [sum(one[0] == letter for one in found) for letter in "vt"]
        lines.append(f"| `{name}` | {flag} | {' '.join(found)} | {counts[0]} | {counts[1]} |")
    return lines


def test_the_table_of_strategies_is_what_they_do():
    assert "\n".join(table()) in PAGE.read_text()


def test_every_built_in_policy_is_shown():
    assert {type(strategy) for strategy in SHOWN.values()} == set(CATALOGUE)


def test_the_ranges_are_the_ones_that_the_page_names():
    text = PAGE.read_text()
    for scores in (VECTORS, TICKETS):
        assert f"{min(scores.values()):.2f} to {max(scores.values()):.2f}" in text


@pytest.mark.parametrize("factor", [0.1, 1.0])
def test_what_the_page_says_of_rescaling_holds(factor: float):
    halved = {name: score * factor for name, score in VECTORS.items()}
    lanes = (lane("vectors", halved), lane("tickets", TICKETS))
    for strategy in SHOWN.values():
        same = best_first(composed(*lanes, strategy=strategy, max_frames=4)) == best_first(run(strategy))
        assert same is (factor == 1.0 or not isinstance(strategy, ScoreDescending))


def test_what_the_page_says_of_floors_holds():
    floored = run(RoundRobin(), floors=(Floor("tickets", "unit", 0.35),))
    assert best_first(floored) == ["t1", "v1", "t2", "v2"]
    assert "`t1 v1 t2 v2`" in PAGE.read_text()


def test_every_place_that_the_page_links_to_is_there():
    links = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text())
    assert links
    assert all((PAGE.parent / link).exists() for link in links if not link.startswith("http"))
    assert "broker/core/SCORES.md" in (ROOT / "README.md").read_text()


def test_the_plugin_of_the_page_passes_the_gate():
    from broker.gate.run import run_gate
    from broker.gate.subjects import plugged_in

    (source,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    made: dict[str, type] = {}
    exec(source, made)
    verdict = run_gate(plugged_in(made["NewestFirst"](), ""))
    assert verdict.passed


def test_it_is_one_screen_before_plugins_begin():
    first, _, _ = PAGE.read_text().partition("## Plugins")
    assert len(first.splitlines()) <= 60
