"""A child that does not get ready says why, and none outlives the run."""

from __future__ import annotations

import os
import select
import signal

import pytest

from broker.cli.processes import ChildFailure, Children

SERVE = ["serve", "--listen", "127.0.0.1:0", "--json", "--log-level", "error"]


def _has_ended(pidfd, seconds):
    """Whether a process ends within so many seconds; the kernel tells, so that nothing is polled."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    ended = bool(poll.poll(seconds * 1000))
    os.close(pidfd)
    return ended


async def test_a_ready_child_is_stopped_with_its_own_exit_code():
    async with Children() as children:
        child = await children.start("broker", SERVE)
        record = await child.event("ready", 30)
        pidfd = os.pidfd_open(child.pid)
        codes = await children.stop()
    assert record["address"].startswith("127.0.0.1:")
    assert codes == {"broker": 0}
    assert _has_ended(pidfd, 0)


async def test_what_the_child_says_is_the_reason():
    async with Children() as children:
        child = await children.start("broker", ["serve", "--listen", "nowhere", "--json"])
        with pytest.raises(ChildFailure, match="host:port") as caught:
            await child.event("ready", 30)
    assert caught.value.told["reason"] == "CONFIG"


async def test_a_child_that_ends_shows_the_last_lines_of_its_log():
    async with Children() as children:
        child = await children.start("odd", ["version"])
        with pytest.raises(ChildFailure, match="odd ended with exit code 2 before it was ready") as caught:
            await child.event("ready", 30)
    assert "No such option" in caught.value.message
    assert caught.value.told is None


async def test_a_child_that_is_too_slow_is_told_with_the_time():
    async with Children() as children:
        child = await children.start("broker", SERVE)
        with pytest.raises(ChildFailure, match=r"broker was not ready within 0\.001 s"):
            await child.event("ready", 0.001)
        pidfd = os.pidfd_open(child.pid)
    assert _has_ended(pidfd, 0)


async def test_a_child_that_does_not_listen_to_sigterm_is_killed(monkeypatch):
    monkeypatch.setattr("broker.cli.processes.STOP_GRACE", 0.2)
    async with Children() as children:
        child = await children.start("broker", SERVE)
        await child.event("ready", 30)
        child.signal(signal.SIGSTOP)
        codes = await children.stop()
    assert codes == {"broker": -signal.SIGKILL}


async def test_an_error_inside_stops_every_child():
    pidfds = []

    async def fail():
        async with Children() as children:
            child = await children.start("broker", SERVE)
            await child.event("ready", 30)
            pidfds.append(os.pidfd_open(child.pid))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert _has_ended(pidfds[0], 0)


async def test_the_environment_of_this_process_configures_no_child(monkeypatch):
    monkeypatch.setenv("CONTEXT_BROKER_LIMITS__NO_SUCH_KEY", "1")
    async with Children() as children:
        child = await children.start("broker", SERVE)
        assert (await child.event("ready", 30))["event"] == "ready"
