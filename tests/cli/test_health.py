"""The exit code says whether a broker serves, and no credential is needed to ask."""

from __future__ import annotations

import json


def test_a_broker_that_serves_and_one_that_drains(run_command, start_command):
    address = start_command("serve", "--listen", "127.0.0.1:0").ready["address"]
    done = run_command("health", "--address", address)
    assert (done.returncode, done.stdout.decode()) == (0, f"{address} SERVING\n")
    assert run_command("drain", "--address", address).returncode == 0
    done = run_command("health", "--address", address, "--service", "readiness", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "event": "health",
        "address": address,
        "service": "readiness",
        "status": "NOT_SERVING",
    }


def test_no_broker_is_a_plain_error(run_command):
    done = run_command("health", "--address", "127.0.0.1:1", "--wait", "0.3")
    assert done.returncode == 1
    assert b"UNREACHABLE" in done.stderr


def test_a_service_that_there_is_none_of_is_told(run_command, broker_address):
    done = run_command("health", "--address", broker_address, "--service", "no.such", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["reason"] == "SERVICE_UNKNOWN"


def test_a_token_that_cannot_be_read_is_no_reason_not_to_look(run_command, broker_address, tmp_path):
    (tmp_path / "token").write_text("two words")
    done = run_command("health", "--address", broker_address, "--token-file", str(tmp_path / "token"))
    assert done.returncode == 0
