"""Progress shows on standard error alone: a table that changes on a terminal with rich, plain lines elsewhere."""

from __future__ import annotations

import io
import sys

from broker.cli.progress import LiveProgress, PlainProgress, Progress, progress
from broker.client import Snapshot


class _Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def _to_terminal(monkeypatch):
    # In the test itself: pytest puts its own stream back after fixtures were set up.
    stream = _Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    return stream


def _tell(shown, *snapshots):
    with shown:
        shown.opened(["files", "symbols"])
        shown.changed("files", "COLLECTING", 3, "")
        shown.changed("files", "COMPLETE", 40, "")
        shown.changed("symbols", "FAILED", 0, "gave \x1b[2J up")
        for snapshot in snapshots:
            shown.snapshot(snapshot)


def test_what_suits_the_stream(monkeypatch):
    _to_terminal(monkeypatch)
    assert isinstance(progress(quiet=False), LiveProgress)
    assert type(progress(quiet=True)) is Progress
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert isinstance(progress(quiet=False), PlainProgress)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(progress(quiet=False), PlainProgress)


def test_plain_lines_tell_how_each_lane_ended(capsys):
    _tell(PlainProgress())
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["files COMPLETE, 40 frames", "symbols FAILED, 0 frames: gave ⟦U+001B⟧[2J up"]


def test_the_table_shows_every_lane_and_leaves_the_terminal_as_it_was(monkeypatch, capsys):
    terminal = _to_terminal(monkeypatch)
    _tell(LiveProgress())
    text = terminal.getvalue()
    assert "files" in text
    assert "40 frames" in text
    assert "gave ⟦U+001B⟧[2J up" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h")
    assert capsys.readouterr().out == ""


def test_snapshots_are_told_in_a_line_or_drawn_one_in_the_place_of_the_other(monkeypatch, capsys, compose_by_hand):
    snapshots = [
        Snapshot(1, ("symbols", "his\x1btory"), compose_by_hand()),
        Snapshot(3, ("symbols",), compose_by_hand()),
    ]
    _tell(PlainProgress(), *snapshots)
    assert capsys.readouterr().err.splitlines()[-2:] == [
        "snapshot 1: 7 frames placed of 7, 725 of 1,000 tokens; waiting for symbols and his⟦U+001B⟧tory",
        "snapshot 3: 7 frames placed of 7, 725 of 1,000 tokens; waiting for symbols",
    ]
    terminal = _to_terminal(monkeypatch)
    _tell(LiveProgress(), *snapshots)
    text = terminal.getvalue()
    assert "snapshot 3: 7 frames placed" in text
    assert "closing" in text


def test_quiet_shows_nothing(capsys, compose_by_hand):
    _tell(Progress(), Snapshot(1, ("a",), compose_by_hand()))
    assert capsys.readouterr() == ("", "")
