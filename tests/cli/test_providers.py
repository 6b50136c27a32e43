"""The list of providers shows who is attached, on which scale, and who sits out."""

from __future__ import annotations

import json
import math

import pytest

from broker.cli.output import ASCII, UNICODE, Style
from broker.cli.providers import provider_lines
from broker.cli.show import scale_cell
from broker.cli.text import width
from broker.client import Direction, ListedInstance, ListedProvider, ScoreScale

INSTANCE = ListedInstance(instance="i", session="s", version="", in_flight=2, max_in_flight=64, last_seen=0.0)


def test_each_state_is_named():
    found = [
        ListedProvider(provider="files", instances=(INSTANCE, INSTANCE), scale=ScoreScale(), last_seen=0.0),
        ListedProvider(provider="gone"),
        ListedProvider(provider="liar", instances=(INSTANCE,), quarantined_seconds=90, kinds=("doc",)),
        ListedProvider(provider="weak", instances=(INSTANCE,), circuit_open_seconds=4),
    ]
    heading, *rows = provider_lines(found, Style())
    assert "2 attached" in rows[0]
    assert heading.split()[:2] == ["provider", "state"]
    assert "attached" in rows[0]
    assert "4/128" in rows[0]
    assert "1970-01-01T00:00Z" in rows[0]
    assert "not attached" in rows[1]
    assert rows[1].endswith("never")
    assert "sits out 90 s" in rows[2]
    assert "fails, tried in 4 s" in rows[3]
    assert all(width(line) <= 100 for line in (heading, *rows))


def test_a_broker_without_providers_is_said(run_command, broker_address):
    done = run_command("providers", "--address", broker_address)
    assert done.returncode == 0
    assert b"knows" in done.stdout or b"provider" in done.stdout


def test_records(run_command, served_address):
    done = run_command("providers", "--address", served_address, "--json")
    records = {record["provider"]: record for record in map(json.loads, done.stdout.splitlines())}
    assert set(records) == {"files", "symbols", "history"}
    fields = {"provider", "kinds", "scale", "quarantined_seconds", "circuit_open_seconds", "last_seen", "instances"}
    assert all(set(record) == fields for record in records.values())
    instance = records["files"]["instances"][0]
    assert set(instance) == {"instance", "session", "version", "in_flight", "max_in_flight", "last_seen"}


SCALES = [
    ScoreScale("bm25", -math.inf, 0.0, Direction.LOWER_IS_BETTER),
    ScoreScale("name-match"),
    ScoreScale("matched-terms", 0.0, math.inf),
]


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_the_scale_that_a_floor_must_name_is_whole_on_a_page_of_any_width(columns, glyphs):
    found = [
        ListedProvider(provider=f"provider-{n}", instances=(INSTANCE,), scale=scale, kinds=("snippet", "doc"))
        for n, scale in enumerate(SCALES)
    ]
    style = Style(width=columns, glyphs=glyphs)
    lines = provider_lines(found, style)
    assert all(width(line) <= columns for line in lines)
    for line, scale in zip(lines[1:], SCALES, strict=False):
        assert scale_cell(scale, style) in line
    assert "--floor PROVIDER:SCALE=VALUE" in " ".join(lines)
