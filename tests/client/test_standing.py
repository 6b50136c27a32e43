"""A change of how a provider stands is told at once, its end too, and the same failure seldom."""

from __future__ import annotations

import logging
import sys

import pytest

from broker.client.standing import REMIND_SECONDS, Standing
from broker.errors import BrokerError, ResourceExhausted, Unavailable

GONE = Unavailable("UNREACHABLE", "no broker answers")
LOST = Unavailable("CONNECTION_LOST", "it was lost")


class Told:
    """A standing with a clock of the test's, and what a reader of warnings sees of it."""

    def __init__(self, caplog) -> None:
        self.seconds = 1000.0
        self._caplog = caplog
        self.standing = Standing("notes", "127.0.0.1:1", lambda: self.seconds)

    def warned(self) -> list[str]:
        found = [r.getMessage() for r in self._caplog.records if r.levelno >= logging.WARNING]
        self._caplog.clear()
        return found

    def fails(self, error: BrokerError, after: float = 1.0) -> list[str]:
        self.seconds += after
        self.standing.failed(error)
        return self.warned()


@pytest.fixture
def told(caplog) -> Told:
    caplog.set_level(logging.DEBUG, "broker.client")
    return Told(caplog)


def test_the_same_failure_is_told_once_and_then_seldom(told: Told):
    assert told.fails(GONE) == ["notes is not attached to 127.0.0.1:1 and will try again: no broker answers"]
    assert [told.fails(GONE) for _ in range(20)] == [[]] * 20
    assert len(told.fails(GONE, REMIND_SECONDS)) == 1
    assert told.fails(GONE) == []


def test_another_failure_is_told_at_once(told: Told):
    assert [len(told.fails(error)) for error in (GONE, LOST, LOST, ResourceExhausted("FLAPPING", "x"), GONE)] == [
        1, 1, 0, 1, 1,
    ]  # fmt: skip


def test_an_attachment_after_failures_is_told_to_whoever_saw_them(told: Told):
    told.standing.attached("s1")
    assert told.warned() == []
    told.fails(GONE)
    told.standing.attached("s2")
    assert told.warned() == ["notes is attached to 127.0.0.1:1 as s2, after 1 failed attempt"]
    for _ in range(3):
        told.fails(LOST)
    told.standing.attached("s3")
    assert told.warned() == ["notes is attached to 127.0.0.1:1 as s3, after 3 failed attempts"]
    told.standing.attached("s4")
    assert told.warned() == []


def test_a_failure_after_an_attachment_is_told_although_it_is_the_same(told: Told):
    told.fails(LOST)
    told.standing.attached("s1")
    told.warned()
    assert len(told.fails(LOST)) == 1


def test_every_failure_is_in_the_log_of_whoever_reads_all(told: Told, caplog):
    for _ in range(5):
        told.standing.failed(GONE)
    assert caplog.text.count("no broker answers") == 5


def test_where_nothing_takes_the_log_an_attachment_is_said_all_the_same(monkeypatch, capsys):
    log = logging.getLogger("broker.client")
    monkeypatch.setattr(log, "propagate", False)
    Standing("notes", "127.0.0.1:1").attached("s")
    assert capsys.readouterr().err == ""
    Standing("notes", "127.0.0.1:1", announces=True).attached("s")
    assert capsys.readouterr().err == "notes is attached to 127.0.0.1:1\n"
    handler = logging.NullHandler()
    log.addHandler(handler)
    try:
        Standing("notes", "127.0.0.1:1", announces=True).attached("s")
    finally:
        log.removeHandler(handler)
    assert capsys.readouterr().err == ""


def test_the_end_of_failures_is_said_once(monkeypatch, capsys):
    monkeypatch.setattr(logging.getLogger("broker.client"), "propagate", False)
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(sys.stderr))
    standing = Standing("notes", "127.0.0.1:1", announces=True)
    standing.failed(GONE)
    standing.attached("s")
    assert capsys.readouterr().err.count("is attached") == 1
