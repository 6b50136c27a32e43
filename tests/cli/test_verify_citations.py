"""An answer's citations are told with what exists, and the exit code says whether any was invented."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.documents import composed, document

GOOD = "It deals one frame a round [Round robin], and shares [Shared].\n"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return document(tmp_path_factory.mktemp("citations") / "c.json")


def _run(run_command, tmp_path, file, answer: bytes | str, *arguments: str):
    path = tmp_path / "answer.md"
    path.write_bytes(answer if isinstance(answer, bytes) else answer.encode())
    return run_command("verify-citations", str(path), "--composition", str(file), *arguments)


def test_true_citations_exit_0_and_show_what_was_never_cited(run_command, tmp_path, file):
    done = _run(run_command, tmp_path, file, GOOD)
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.findall("^[A-Z]{4,}", text, re.MULTILINE) == ["CITED", "NEVER"]
    placed = len(composed()[0].placed)
    assert text.splitlines()[-1] == f"2 of {placed} placed frames cited, none invented"


def test_an_invented_citation_exits_1_with_what_it_comes_near_to(run_command, tmp_path, file):
    done = _run(run_command, tmp_path, file, GOOD + "[round robin] [docs/d5] [made up]\n")
    text = done.stdout.decode()
    assert done.returncode == 1
    assert text.startswith("INVENTED")
    assert "differs from 'Round robin' in upper and lower case alone" in text
    assert "docs/d5 was offered and left out (OVER_BUDGET): the model never saw it" in text
    assert text.splitlines()[-1].endswith("3 invented citations")


def test_records_have_stable_names(run_command, tmp_path, file):
    done = _run(run_command, tmp_path, file, GOOD + "[Fold] [made up]", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {record["event"]: set(record) for record in records} == {
        "cited": {"event", "label", "provider", "frame_id", "position", "times", "bare", "lines"},
        "ambiguous": {"event", "label", "frames", "times", "lines"},
        "invented": {"event", "text", "times", "lines", "near", "nearest", "detail"},
        "uncited": {"event", "label", "provider", "frame_id", "position"},
        "verdict": {"event", "cited", "ambiguous", "invented", "uncited", "ok"},
    }
    assert records[-1] == {"event": "verdict", "cited": 2, "ambiguous": 1, "invented": 1, "uncited": 1, "ok": False}
    assert (done.returncode, records[-1]["ok"]) == (1, False)


def test_the_answer_may_be_standard_input(run_command, file):
    done = run_command("verify-citations", "-", "--composition", str(file), input=GOOD.encode())
    assert done.returncode == 0
    done = run_command("verify-citations", "-", "--composition", "-", input=b"")
    assert done.returncode == 2
    assert b"cannot both be standard input" in done.stderr


@pytest.mark.parametrize(
    ("answer", "words"), [(b"\xff\xfe", b"byte 1 is not UTF-8"), (b"[\xc3]", b"byte 2 is not UTF-8")]
)
def test_an_answer_that_is_no_text_is_refused(run_command, tmp_path, file, answer, words):
    done = _run(run_command, tmp_path, file, answer)
    assert (done.returncode, done.stdout) == (1, b"")
    assert words in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_byte_order_mark_is_no_part_of_the_answer(run_command, tmp_path, file):
    assert _run(run_command, tmp_path, file, b"\xef\xbb\xbf" + GOOD.encode()).returncode == 0


def test_what_an_answer_holds_cannot_leave_its_line(run_command, tmp_path, file):
    done = _run(run_command, tmp_path, file, "[\x1b[2J evil \u202e name]")
    assert "\x1b" not in done.stdout.decode()
    assert "\u202e" not in done.stdout.decode()
    assert "⟦U+202E⟧" in done.stdout.decode()


def test_a_composition_that_is_none_is_refused(run_command, tmp_path):
    answer = tmp_path / "answer.md"
    answer.write_text(GOOD)
    done = run_command("verify-citations", str(answer), "--composition", str(answer))
    assert done.returncode == 1
    assert b"answer.md, line 1: not JSON" in done.stderr


def test_what_it_reads_is_reported_of_the_composition_on_record(run_command, recording_broker, recorded):
    composition_id = recorded(provider="cited")
    arguments = ["verify-citations", "-", "--composition", composition_id, "--report", "--address", recording_broker]
    done = run_command(*arguments, "--json", input=b"As [One] says, and [nothing] does.")
    assert done.returncode == 1, done.stderr.decode()
    verdict, reported = map(json.loads, done.stdout.splitlines()[-2:])
    assert (verdict["cited"], verdict["invented"]) == (1, 1)
    expected = {"event": "reported", "composition_id": composition_id, "selected": 2, "rendered": 2, "cited": 1}
    assert reported == expected
    done = run_command(*arguments, input=b"See [Two].")
    assert done.stdout.decode().splitlines()[-1].endswith(": 2 frames selected, 2 rendered, 1 cited")
    stats = run_command("providers", "stats", "--address", recording_broker, "--json")
    counted = {each["provider"]: each for each in map(json.loads, stats.stdout.splitlines())}["cited"]
    assert (counted["rendered"], counted["cited"]) == (2, 2)


def test_a_report_that_no_broker_takes_fails_behind_what_was_found(run_command, tmp_path, file):
    done = _run(run_command, tmp_path, file, GOOD, "--report", "--address", "127.0.0.1:1", "--json")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["event"] for record in records][-2:] == ["verdict", "error"]
    assert (done.returncode, records[-1]["reason"]) == (1, "UNREACHABLE")
