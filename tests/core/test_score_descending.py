"""Raw scores over lanes are read in one place, by one policy, and by nothing else in the package."""

from __future__ import annotations

import ast
from pathlib import Path

import broker
from broker.core.duplicates import join_duplicates
from broker.core.request import Duplicates
from broker.core.score_descending import by_raw_score, raw_order
from tests.core.building import ANY, AS_SENT, DISTANCE, entries, lane

PACKAGE = Path(broker.__file__).parent
RAW = {"_value", "_goodness", "raw_across_lanes"}


def raw_reads(path: Path) -> set[str]:
    """Ways to a raw number that a module uses: attributes and imports, also by their names in strings."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(attr=str(name)) | ast.alias(name=str(name)) | ast.Constant(value=str(name)):
                found.add(name)
    return found & RAW


def test_no_other_module_reads_a_raw_score():
    users = {path.relative_to(PACKAGE).as_posix(): raw_reads(path) for path in PACKAGE.rglob("*.py")}
    assert {path: names for path, names in users.items() if names} == {
        "core/scores.py": {"_value", "_goodness"},
        "core/score_descending.py": {"raw_across_lanes"},
    }


def test_only_the_ranking_of_lanes_and_its_replay_use_that_module():
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "broker.core.score_descending"
    }
    # What works an audit's order out again does so under the same policies.
    assert users == {"core/plan.py", "core/replay.py"}


def order(*lanes) -> list[str]:
    kept = join_duplicates(entries(*lanes), Duplicates.SAME_BYTES, by_raw_score)
    return [kept[index].candidate.frame.id for index in raw_order(kept)]


def test_raw_scores_meet_and_ties_go_by_lane_then_local_rank():
    first, second = lane("a", {"a2": 7.0, "a1": 7.0, "low": -1.0}, ANY), lane("b", {"b1": 7.0, "top": 8.0}, ANY)
    assert order(first, second) == ["top", "a1", "a2", "b1", "low"]


def test_lower_is_better_has_its_sign_turned():
    assert order(lane("a", {"near": 0.1, "far": 1.9}, DISTANCE), lane("b", {"x": -1.0}, ANY)) == ["near", "x", "far"]


def test_unscored_lanes_follow_in_round_robin_order():
    unscored = [lane("a", {"p": None, "q": None}, AS_SENT), lane("c", {"r": None, "s": None}, AS_SENT)]
    assert order(unscored[0], lane("b", {"worst": -1e300}, ANY), unscored[1]) == ["worst", "p", "r", "q", "s"]


def test_the_better_scored_copy_is_kept_and_a_scored_one_before_an_unscored():
    assert order(lane("a", {"x": 1.0}, ANY), lane("b", {"y": 9.0, "x": 8.0}, ANY)) == ["y", "x"]
    kept = join_duplicates(
        entries(lane("a", {"x": None}, AS_SENT), lane("b", {"x": 1.0}, ANY)), Duplicates.SAME_BYTES, by_raw_score
    )
    assert [entry.provider for entry in kept] == ["b"]
