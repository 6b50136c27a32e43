"""The list of policies flags the one that compares raw scores, and no other."""

from __future__ import annotations

import json

from broker.cli.output import Style
from broker.cli.policy import STRATEGIES
from broker.cli.strategies import strategy_lines
from broker.client import ListedStrategy, ScoreDescending
from broker.core.strategies import CATALOGUE


def test_a_person_sees_every_policy_and_the_flag(run_command, broker_address):
    done = run_command("strategies", "--address", broker_address)
    text = done.stdout.decode()
    names = {line.split()[0] for line in text.splitlines() if not line.startswith(" ")}
    assert names == set(STRATEGIES)
    assert [line.split()[0] for line in text.splitlines() if "COMPARES RAW SCORES" in line] == ["score_descending"]


def test_records(run_command, broker_address):
    done = run_command("strategies", "--address", broker_address, "--json")
    records = {record["name"]: record for record in map(json.loads, done.stdout.splitlines())}
    assert set(records) == set(STRATEGIES)
    assert [name for name, record in records.items() if record["compares_raw_scores"]] == ["score_descending"]
    assert [name for name, record in records.items() if record["default"]] == ["round_robin"]
    fields = {
        "name",
        "version",
        "description",
        "compares_raw_scores",
        "default",
        "allowed",
        "parameters",
        "default_params",
    }
    assert all(set(record) == fields for record in records.values())
    assert {p["name"]: p["default"] for p in records["reciprocal_rank_fusion"]["parameters"]}["k"] == "60"


def test_a_forbidden_policy_is_marked():
    lines = list(
        strategy_lines([ListedStrategy(name="x", description="d", compares_raw_scores=False, allowed=False)], Style())
    )
    assert lines[0] == "x  forbidden by the operator"


def test_the_operators_parameters_stand_by_its_default():
    listed = ListedStrategy(
        name="reciprocal_rank_fusion",
        description="d",
        compares_raw_scores=False,
        default=True,
        version="1",
        default_params={"k": 10, "weights": {"files": 2.0}, "default_weight": 1.0},
    )
    assert (
        next(strategy_lines([listed], Style()))
        == "reciprocal_rank_fusion  1  default(k=10, weights={files=2}, default_weight=1)"
    )


def test_the_policy_that_compares_raw_scores_says_that_it_negates_some():
    description = CATALOGUE[ScoreDescending].description
    assert "negated where lower is better" in description
