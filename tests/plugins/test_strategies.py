"""Ranking policies of others are taken by name, held against their protocol, and pass the gate before they serve."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from broker.core.strategies import PluginStrategy, RoundRobin
from broker.errors import ConfigError
from broker.gate import hashing
from broker.plugins.strategies import allowed, load_strategy


def refusal(*names: str, default=None) -> str:
    with pytest.raises(ConfigError) as caught:
        allowed(names, default or RoundRobin())
    return str(caught.value)


def test_a_good_plugin_is_allowed_and_its_file_is_logged(distribution: Path):
    with structlog.testing.capture_logs() as logged:
        plugins = allowed(["kind_first"], RoundRobin())
    assert {name: plugin.version for name, plugin in plugins.items()} == {"kind_first": "1.2.0"}
    (record,) = logged
    assert record["event"] == "plugin allowed"
    assert record["digest"] == load_strategy("kind_first")[0].digest
    assert record["distribution"] == "example-ranking 2.0"


def test_nothing_is_loaded_where_nothing_is_allowed(distribution: Path):
    assert allowed([], RoundRobin()) == {}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing", "it has no description, parameters, order"),
        ("misnamed", "calls itself 'another'"),
        ("round_robin", "name of a built-in strategy"),
        ("No Name", "is no name for a strategy"),
        ("no_such", "no plugin called 'no_such'"),
    ],
)
def test_what_is_no_ranking_policy_is_refused(distribution: Path, name: str, says: str):
    assert says in refusal(name)


@pytest.mark.parametrize(
    ("name", "broken", "says"),
    [
        ("careless", "order is broken", "appended 1 that were left out"),
        ("moody", "order is broken", "the plugin failed with RuntimeError"),
        ("hashed", "T4 is broken", "another seed of Python's hashes"),
        ("walker", "T2 is broken", "give another prompt"),
    ],
)
def test_the_gate_refuses_with_the_smallest_set_that_shows_it(distribution: Path, name: str, broken: str, says: str):
    message = refusal("kind_first", name)
    assert f"the gate refuses the plugin {name!r}" in message
    assert f"context-broker strategies check {name}" in message
    assert broken in message
    assert says in message
    table = message.splitlines()
    heading = next(index for index, line in enumerate(table) if line.split()[:2] == ["provider", "scale"])
    frames = [line for line in table[heading + 1 :] if line.startswith("    ")]
    assert 1 <= len(frames) <= 4 * message.count("is broken")


def test_a_plugin_that_does_not_end_is_refused_in_time(distribution: Path, monkeypatch):
    monkeypatch.setattr(hashing, "SECONDS", 0.5)
    assert "did not answer 48 samples within 0.5 s" in refusal("slow")


def test_the_defaults_parameters_must_be_ones_that_it_takes(distribution: Path):
    assert "declares no parameter 'min_score'" in refusal(
        "kind_first", default=PluginStrategy("kind_first", {"min_score": 0.5})
    )


def test_the_gate_tries_the_defaults_parameters_too(distribution: Path):
    assert "order is broken" in refusal("kind_first", default=PluginStrategy("kind_first", {"mood": "raising"}))
    assert allowed(["kind_first"], PluginStrategy("kind_first", {"turns": 2})).keys() == {"kind_first"}


def test_a_failure_at_work_is_told_to_the_operator_in_full(distribution: Path):
    plugin = allowed(["kind_first"], RoundRobin())["kind_first"]
    with structlog.testing.capture_logs() as logged, pytest.raises(KeyError):
        plugin.order((), {"mood": "raising"})
    (record,) = logged
    assert (record["event"], record["log_level"], record["plugin"]) == ("plugin failed", "warning", "kind_first")
    assert "Traceback" in record["traceback"]
    assert "KeyError" in record["traceback"]
