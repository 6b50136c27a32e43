"""What is reported is named by label or as PROVIDER/ID, and counted."""

from __future__ import annotations

import json

from broker.cli.report import reported_line
from broker.core.records import Observation


def test_what_was_reported_is_one_line():
    seen = [Observation("a", "1", True), Observation("b", "1", True, True), Observation("c", "1", True, True, True)]
    assert reported_line("c", seen) == "reported of composition c: 3 frames selected, 2 rendered, 1 cited"


def test_something_must_have_been_seen(run_command):
    done = run_command("report", "019aaaaa-0000-7000-8000-000000000000")
    assert done.returncode == 2
    assert b"say what was seen" in done.stderr


def test_what_was_reported_is_counted(run_command, recording_broker, recorded):
    address, composition_id = recording_broker, recorded(provider="reported")
    done = run_command("report", composition_id, "--cited", "One", "--selected", "reported/n2", "--address", address)
    assert done.stdout.decode().endswith(": 2 frames selected, 1 rendered, 1 cited\n"), done.stderr.decode()
    done = run_command("report", composition_id, "--whole-prompt", "--address", address, "--json")
    expected = {"event": "reported", "composition_id": composition_id, "selected": 2, "rendered": 2, "cited": 0}
    assert json.loads(done.stdout) == expected
    stats = run_command("providers", "stats", "--since", "1h", "--address", address, "--json")
    counted = {each["provider"]: each for each in map(json.loads, stats.stdout.splitlines())}["reported"]
    assert [counted[name] for name in ("asked", "placed", "selected", "rendered", "cited")] == [1, 2, 2, 2, 1]
    done = run_command("report", composition_id, "--cited", "Onne", "--address", address)
    assert (done.returncode, b"did you mean 'One'" in done.stderr) == (2, True)
