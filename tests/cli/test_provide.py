"""A ready-made provider attaches under its name, answers over a real folder, and leaves in order."""

from __future__ import annotations

import json
import signal

import pytest


@pytest.fixture(scope="module")
def address(start_command):
    """A broker of these tests' own: providers come and go."""
    return start_command("serve", "--listen", "127.0.0.1:0").ready["address"]


def _listed(run_command, address):
    done = run_command("providers", "--address", address, "--json")
    return {record["provider"]: record for record in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_attaches_is_listed_and_drains_with_0(start_command, run_command, address, source_folder, number):
    running = start_command("provide", "files", str(source_folder), "--address", address)
    assert running.ready["event"] == "attached"
    assert running.ready["provider"] == "files"
    assert running.ready["scale"]["direction"] == "lower_is_better"
    listed = _listed(run_command, address)["files"]
    assert [instance["session"] for instance in listed["instances"]] == [running.ready["session"]]
    running.process.send_signal(number)
    assert running.process.wait(20) == 0
    assert _listed(run_command, address)["files"]["instances"] == []


def test_another_name_and_an_instance_id(start_command, run_command, address, source_folder):
    arguments = ["--name", "notes", "--instance-id", "notes-1"]
    running = start_command("provide", "symbols", str(source_folder), "--address", address, *arguments)
    listed = _listed(run_command, address)["notes"]
    assert [instance["instance"] for instance in listed["instances"]] == ["notes-1"]
    running.process.stdin.close()
    assert running.process.wait(20) == 0


@pytest.mark.parametrize(
    ("name", "folder", "says"),
    [("files", "no-such-folder", "no-such-folder"), ("history", ".", "git")],
)
def test_a_folder_that_it_cannot_serve_exits_2(run_command, address, tmp_path, name, folder, says):
    done = run_command("provide", name, str(tmp_path / folder), "--address", address, "--json")
    assert done.returncode == 2
    assert says in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert json.loads(done.stdout)["event"] == "error"


def test_a_name_that_is_none_exits_2(run_command, address, source_folder):
    done = run_command("provide", "files", str(source_folder), "--address", address, "--name", "all")
    assert done.returncode == 2
    assert "all" in done.stderr.decode()
