"""``top`` shows a running broker as often as it is asked to, and says what is missing where there are no figures."""

from __future__ import annotations

import json
import re
import urllib.request

import pytest


@pytest.fixture(scope="module")
def watched(start_command, command_line, plain_environment):
    """Where a broker listens, and its admin port."""
    import socket
    import subprocess

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        admin = f"127.0.0.1:{probe.getsockname()[1]}"
    process = subprocess.Popen(
        command_line("serve", "--listen", "127.0.0.1:0", "--json", "--exit-with-parent"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**plain_environment, "CONTEXT_BROKER_ADMIN__LISTEN": admin},
    )
    yield json.loads(process.stdout.readline())["address"], admin
    process.terminate()
    process.wait(20)
    process.stdin.close()
    process.stdout.close()


def test_it_looks_as_often_as_it_is_asked_to(run_command, watched):
    address, admin = watched
    arguments = ("top", "--address", address, "--admin", admin, "--every", "0.2")
    done = run_command(*arguments, "--times", "2", "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert first.keys() == second.keys()
    assert second["ready"] is True
    assert second["memory_bytes"] > 0
    assert second["providers"] == []
    shown = run_command(*arguments, "--times", "1").stdout.decode()
    assert shown.splitlines()[0] == f"{address}  ready"


def test_the_health_of_the_admin_port_is_the_brokers(run_command, watched):
    _, admin = watched
    assert run_command("health", "--admin", admin).stdout.decode() == f"{admin} SERVING\n"
    assert urllib.request.urlopen(f"http://{admin}/readyz", timeout=10).status == 200


def test_without_figures_it_says_what_to_set(run_command, watched):
    address, _ = watched
    done = run_command("top", "--address", address, "--admin", "127.0.0.1:1", "--times", "1")
    assert done.returncode == 1
    assert re.search(r"admin\.listen", done.stderr.decode())


def test_a_place_that_is_none_is_refused(run_command):
    assert run_command("top", "--admin", "nowhere").returncode == 2
