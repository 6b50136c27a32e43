"""A broker that is drained from the command line takes no more questions and stays up."""

from __future__ import annotations

import json


def test_it_takes_no_more_and_says_what_still_runs(run_command, start_command):
    address = start_command("serve", "--listen", "127.0.0.1:0").ready["address"]
    done = run_command("drain", "--address", address, "--json")
    assert json.loads(done.stdout) == {"event": "draining", "in_flight": 0}
    refused = run_command("query", "why", "--address", address)
    assert refused.returncode == 1
    assert b"DRAINING" in refused.stderr
    again = run_command("drain", "--address", address)
    assert again.returncode == 0
    assert b"none is running" in again.stdout


def test_no_broker_is_a_plain_error(run_command):
    done = run_command("drain", "--address", "127.0.0.1:1")
    assert done.returncode == 1
    assert b"UNREACHABLE" in done.stderr
