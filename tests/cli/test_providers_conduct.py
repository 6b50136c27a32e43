"""An operator quarantines and releases providers from the command line, and hears what came of it."""

from __future__ import annotations

import json


def test_a_provider_sits_out_and_is_released(run_command, served_address):
    done = run_command("providers", "quarantine", "history", "--seconds", "600", "--address", served_address, "--json")
    assert json.loads(done.stdout) == {"event": "quarantined", "provider": "history", "seconds": 600}
    listed = run_command("providers", "--address", served_address, "--json")
    sits_out = {each["provider"]: each["quarantined_seconds"] for each in map(json.loads, listed.stdout.splitlines())}
    assert sits_out["history"] > 0
    assert sits_out["files"] == 0
    told = run_command("providers", "release", "history", "--address", served_address)
    assert b"asked again" in told.stdout
    again = run_command("providers", "release", "history", "--address", served_address, "--json")
    assert json.loads(again.stdout) == {"event": "released", "provider": "history", "remaining_seconds": 0}


def test_a_provider_that_no_one_knows_is_an_error(run_command, served_address):
    done = run_command("providers", "quarantine", "nope", "--address", served_address)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"PROVIDER_UNKNOWN" in done.stderr


def test_seconds_out_of_range_are_wrong_usage(run_command):
    assert run_command("providers", "quarantine", "a", "--seconds", "0").returncode == 2


def test_an_option_in_front_of_the_subcommand_is_refused_and_not_ignored(run_command):
    done = run_command("providers", "--address", "127.0.0.1:1", "release", "a")
    assert done.returncode == 2
    assert b"put --address behind 'release'" in done.stderr
