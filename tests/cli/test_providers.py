"""The list of providers shows who is attached, on which scale, and who sits out."""

from __future__ import annotations

import json

from broker.cli.output import Style
from broker.cli.providers import provider_lines
from broker.cli.text import width
from broker.client import ListedInstance, ListedProvider, ScoreScale

INSTANCE = ListedInstance(instance="i", session="s", version="", in_flight=2, max_in_flight=64, last_seen=0.0)


def test_each_state_is_named():
    found = [
        ListedProvider(provider="files", instances=(INSTANCE, INSTANCE), scale=ScoreScale(), last_seen=0.0),
        ListedProvider(provider="gone"),
        ListedProvider(provider="liar", instances=(INSTANCE,), quarantined_seconds=90, kinds=("doc",)),
    ]
    heading, *rows = provider_lines(found, Style())
    assert heading.split()[:2] == ["provider", "state"]
    assert "attached" in rows[0]
    assert "4/128" in rows[0]
    assert "1970-01-01T00:00:00Z" in rows[0]
    assert "not attached" in rows[1]
    assert rows[1].endswith("never")
    assert "sits out 90 s" in rows[2]
    assert all(width(line) <= 100 for line in (heading, *rows))


def test_a_broker_without_providers_is_said(run_command, broker_address):
    done = run_command("providers", "--address", broker_address)
    assert done.returncode == 0
    assert b"knows" in done.stdout or b"provider" in done.stdout


def test_records(run_command, served_address):
    done = run_command("providers", "--address", served_address, "--json")
    records = {record["provider"]: record for record in map(json.loads, done.stdout.splitlines())}
    assert set(records) == {"files", "symbols", "history"}
    fields = {"provider", "kinds", "scale", "quarantined_seconds", "last_seen", "instances"}
    assert all(set(record) == fields for record in records.values())
    instance = records["files"]["instances"][0]
    assert set(instance) == {"instance", "session", "version", "in_flight", "max_in_flight", "last_seen"}
