"""The demo asks one question twice on a real folder, says whom raw scores starve, and leaves no process behind."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
from pathlib import Path

import pytest

from broker.cli.demo import QUESTION_ANYWHERE, QUESTION_HERE, _suiting
from broker.cli.demo_view import Plan, TextView
from broker.cli.output import ASCII, UNICODE, Style
from broker.cli.text import width

ASK = "How does the fold place the best frames?"


def _records(done):
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def _alive(records):
    return [r["pid"] for r in records if r["event"] == "started" and Path(f"/proc/{r['pid']}").exists()]


def test_records_tell_the_whole_run(run_command, source_folder):
    records = _records(run_command("demo", str(source_folder), "--ask", ASK, "--json"))
    by_event = {}
    for record in records:
        by_event.setdefault(record["event"], []).append(record)
    assert {record["process"] for record in by_event["started"]} == {"broker", "files", "symbols", "history"}
    assert {record["provider"] for record in by_event["attached"]} == {"files", "symbols", "history"}
    assert [record["strategy"] for record in by_event["asked"]] == ["score_descending", "round_robin"]
    assert {record["question"] for record in by_event["asked"]} == {ASK}
    assert len(by_event["completed"]) == 2
    exit_codes = dict.fromkeys(("history", "symbols", "files", "broker"), 0)
    assert records[-1] == {"event": "stopped", "exit_codes": exit_codes}
    assert _alive(records) == []
    comparison = by_event["comparison"][0]
    for index, completed in enumerate(by_event["completed"]):
        placed = {name: figures["frames_placed"] for name, figures in completed["usage"]["providers"].items()}
        told = {one["provider"]: one["placed"][index]["frames"] for one in comparison["providers"]}
        assert told == placed


def test_only_the_policy_that_compares_scores_shows_them(run_command, source_folder):
    records = _records(run_command("demo", str(source_folder), "--ask", ASK, "--json"))
    second = next(i for i, r in enumerate(records) if r["event"] == "asked" and r["strategy"] == "round_robin")
    assert any("score" in record for record in records[:second])
    assert not any("score" in record for record in records[second:])


def test_the_page_is_whole_and_keeps_to_its_width(run_command, source_folder):
    done = run_command("demo", str(source_folder), "--ask", ASK, "--max-tokens", "600")
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    for part in ("WHAT EACH PROVIDER OFFERED", "score_descending ─", "round_robin ─", "SIDE BY SIDE", ASK):
        assert part in text
    assert text.count("RANKING") == text.count("PROMPT") == text.count("LEFT OUT") == 2
    assert len(re.findall("COMPARES RAW SCORES", text)) == 1
    assert re.search("STARVES|squeezes|starves no provider here", text)
    assert text.splitlines()[-1] == "All 4 processes have stopped."
    assert [line for line in text.splitlines() if width(line) > 100] == []


def test_a_folder_without_git_is_said_and_the_others_go_on(run_command, tmp_path):
    (tmp_path / "notes.md").write_text("# Fold\n\nThe fold places the best frames at the edges.\n")
    records = _records(run_command("demo", str(tmp_path), "--json", "--ask", ASK))
    skipped = [record for record in records if record["event"] == "skipped"]
    assert [record["provider"] for record in skipped] == ["history"]
    assert "git" in skipped[0]["message"]
    assert [record["event"] for record in records].count("completed") == 2
    text = run_command("demo", str(tmp_path), "--ask", ASK).stdout.decode()
    assert "history   skipped, the demo goes on without it: " in text


def test_a_folder_with_a_package_of_the_same_name_is_data_not_code(run_command, tmp_path):
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "__init__.py").write_text("raise SystemExit('imported from the folder')\n")
    (tmp_path / "notes.md").write_text(f"{ASK}\n")
    assert run_command("demo", ".", "--json", "--ask", ASK, cwd=tmp_path).returncode == 0


def test_a_folder_that_has_no_answer_is_told_instead_of_compared(run_command, tmp_path):
    done = run_command("demo", str(tmp_path), "--ask", ASK)
    assert done.returncode == 1
    assert "no provider offered a frame" in done.stderr.decode()
    assert str(tmp_path) in done.stderr.decode()
    assert not any(title in done.stdout.decode() for title in ("RANKING", "SIDE BY SIDE"))


def test_a_child_that_is_not_ready_in_time_fails_the_demo(run_command, source_folder):
    done = run_command("demo", str(source_folder), "--startup-timeout", "0.001", "--json")
    assert done.returncode == 1
    assert "broker was not ready within 0.001 s" in done.stderr.decode()
    assert json.loads(done.stdout.splitlines()[-1])["event"] == "error"


def test_a_budget_too_small_stops_everything_and_says_so(run_command, source_folder):
    done = run_command("demo", str(source_folder), "--max-tokens", "5", "--json")
    assert done.returncode == 2
    assert "BUDGET_TOO_SMALL" in done.stderr.decode()
    assert _alive([json.loads(line) for line in done.stdout.splitlines()]) == []


@pytest.mark.parametrize("folder", ["here", "elsewhere"])
def test_the_question_suits_the_folder(tmp_path, folder, request):
    path = request.config.rootpath if folder == "here" else tmp_path
    assert _suiting(path) == {"here": QUESTION_HERE, "elsewhere": QUESTION_ANYWHERE}[folder]


@pytest.fixture
def started_demo(source_folder, command_line, plain_environment):
    """A demo whose broker and providers have all been started, and a handle on each of them."""
    process = subprocess.Popen(
        command_line("demo", str(source_folder), "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=plain_environment,
    )
    children = {}
    while len(children) < 4:
        record = json.loads(process.stdout.readline())
        if record["event"] == "started":
            children[record["process"]] = os.pidfd_open(record["pid"])
            if record["process"] == "symbols":
                symbols = record["pid"]
    yield process, children, symbols
    process.kill()
    process.communicate()
    for pidfd in children.values():
        os.close(pidfd)


def _all_end(children, seconds=20):
    for pidfd in children.values():
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
    return True


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_everything_without_a_traceback(started_demo, number, code):
    process, children, symbols = started_demo
    # A provider that hears nothing holds the demo where it is, and has to be killed in the end.
    os.kill(symbols, signal.SIGSTOP)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert process.returncode == code
    assert b"Traceback" not in err
    assert _all_end(children, 0)


def test_a_killed_demo_leaves_no_child(started_demo):
    process, children, _ = started_demo
    process.kill()
    assert process.wait(10) == -signal.SIGKILL
    assert _all_end(children)


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_the_page_keeps_to_the_width(compose_by_hand, capsys, columns, glyphs):
    first = compose_by_hand(["files"] * 6, left_out=["symbols"] * 9, strategy="score_descending", scores=True)
    view = TextView(Style(width=columns, glyphs=glyphs))
    plan = Plan(directory=Path(), question="q", max_tokens=1000, startup=1.0, collect=1.0)
    view.compare(plan, first, compose_by_hand(left_out=["files"] * 9))
    assert [line for line in capsys.readouterr().out.splitlines() if width(line) > columns] == []
