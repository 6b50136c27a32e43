"""A question on the command line gives the whole composition, in pictures, in records or as the bare prompt."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
from contextlib import closing

import pytest

from broker.cli.text import width
from broker.client import BlockingContextClient, Floor, Placement, ScoreDescending

GOAL = "how does the fold place the best frames?"
NOTES = [
    {"id": "n1", "title": "One", "content": "The fold puts the best first.", "score": 0.9},
    {"id": "n2", "title": "Two", "content": "Zwei — ä 漢字 \u202e turned", "score": 0.4},
    {"id": "n3", "title": "Three", "content": "x" * 4000, "score": 0.2},
]


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps(note) + "\n" for note in NOTES))
    return path


def _records(done):
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_page_shows_lanes_ranking_prompt_and_exclusions(run_command, served_address):
    done = run_command("query", GOAL, "--address", served_address)
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    titles = re.findall(r"^[A-Z]{4,}(?: [A-Z]+)?", text, re.MULTILINE)
    assert titles == [
        "LANES",
        "RANKING",
        "PROMPT",
        "LEFT OUT",
    ]
    assert re.search(r"files +bm25 -∞\.\.0 ↓ +COMPLETE", text)
    assert re.search(r"1  \w+ +#1  round 1", text)
    assert all(width(line) <= 100 for line in text.splitlines())
    assert "\x1b" not in text


def test_progress_goes_to_standard_error_unless_quiet(run_command, served_address):
    loud = run_command("query", GOAL, "--address", served_address)
    assert {line.split()[0] for line in loud.stderr.decode().splitlines()} == {"files", "symbols", "history"}
    assert run_command("query", GOAL, "--address", served_address, "--quiet").stderr == b""


def test_records_come_in_order_and_hold_no_score(run_command, served_address):
    records = _records(run_command("query", GOAL, "--address", served_address, "--json"))
    events = [record["event"] for record in records]
    assert list(dict.fromkeys(events)) == ["accepted", "lane", "placed", "audit", "completed"]
    assert events[0] == "accepted"
    assert events.count("completed") == 1
    assert not any("score" in record for record in records if record["event"] == "audit")
    assert {record["provider"] for record in records if record["event"] == "lane"} == {"files", "symbols", "history"}
    assert records[-1]["rows"] == events.count("audit")


def test_scores_stand_in_audit_records_when_they_are_asked_for(run_command, served_address):
    records = _records(run_command("query", GOAL, "--address", served_address, "--json", "--scores"))
    rows = [record for record in records if record["event"] == "audit"]
    assert rows
    assert all({"provider", "scale", "value", "floor"} == set(row["score"]) for row in rows)
    assert not any('"score"' in json.dumps(record) for record in records if record["event"] != "audit")


def test_the_prompt_is_the_clients_prompt_byte_for_byte(run_command, served_address, notes):
    arguments = ["--max-tokens", "900", "--placement", "reverse_rank", "--restate-question"]
    done = run_command("query", GOAL, "--address", served_address, "--prompt", *arguments)
    with BlockingContextClient(served_address) as client:
        composition = client.compose(GOAL, max_tokens=900, placement=Placement.REVERSE_RANK, restate_question=True)
    assert composition.placed
    assert done.stdout == composition.prompt.encode()


def test_where_there_is_no_prompt_that_is_said(run_command, broker_address, notes):
    arguments = ["query", GOAL, "--address", broker_address, "--inline", f"notes={notes}", "--prompt", "-q"]
    done = run_command(*arguments, "--mode", "none")
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"note: there is no prompt" in done.stderr
    assert b"there is no prompt" not in run_command(*arguments).stderr


def test_the_prompt_keeps_its_bytes_where_the_terminal_knows_only_ascii(run_command, broker_address, notes):
    arguments = ["query", GOAL, "--address", broker_address, "--inline", f"notes={notes}", "--prompt"]
    plain = run_command(*arguments)
    ascii_only = run_command(*arguments, env={"PYTHONIOENCODING": "ascii"})
    assert plain.stdout == ascii_only.stdout
    assert "漢字".encode() in plain.stdout


def test_a_page_in_ascii_holds_the_same_lines(run_command, broker_address, notes):
    arguments = ["query", GOAL, "--address", broker_address, "--inline", f"notes={notes}", "-q"]
    drawn = run_command(*arguments).stdout.decode()
    plain = run_command(*arguments, env={"PYTHONIOENCODING": "ascii"}).stdout
    assert plain.isascii()
    assert len(plain.decode().splitlines()) == len(drawn.splitlines())


def test_options_reach_the_broker(run_command, served_address):
    done = run_command(
        *("query", GOAL, "--address", served_address, "--json", "--strategy", "score_descending", "--scores"),
        *(
            "--placement",
            "rank_order",
            "--floor",
            "symbols:name-match=0.2",
            "--max-frames",
            "3",
            "--max-tokens",
            "2000",
        ),
        *("--provider", "symbols", "--provider", "files", "--fence", "plain", "--duplicates", "same_bytes_or_source"),
    )
    completed = _records(done)[-1]
    with BlockingContextClient(served_address) as client:
        same = client.compose(
            GOAL,
            max_tokens=2000,
            strategy=ScoreDescending(),
            placement=Placement.RANK_ORDER,
            floors=[Floor("symbols", "name-match", 0.2)],
            max_frames=3,
            providers=["symbols", "files"],
        )
    assert completed["strategy"]["name"] == "score_descending"
    assert completed["strategy"]["compares_raw_scores"] is True
    assert (completed["placement"], completed["duplicates"]) == ("RANK_ORDER", "SAME_BYTES_OR_SOURCE")
    assert completed["floors"] == [
        {
            "provider": "symbols",
            "scale": "name-match",
            "value": 0.2,
            "used": True,
            "dropped": same.summary.floors[0].dropped,
        }
    ]
    assert {lane["provider"] for lane in completed["lanes"]} == {"symbols", "files"}
    assert sum(lane["placed"] for lane in completed["lanes"]) == len(same.placed) == 3


def test_inline_frames_are_a_lane_and_their_slips_stay_in_the_audit(run_command, broker_address, tmp_path):
    path = tmp_path / "memory.jsonl"
    path.write_text("".join(json.dumps({**note, "score": -3 * note["score"]}) + "\n" for note in NOTES))
    arguments = ["query", GOAL, "--address", broker_address, "--inline", f"memory={path}", "--json"]
    records = _records(run_command(*arguments))
    assert {r["reason"] for r in records if r["event"] == "audit"} == {"INVALID"}
    scaled = _records(run_command(*arguments, "--inline-scale", "memory=distance:-inf:0:lower"))
    assert [r["frame_id"] for r in scaled if r["event"] == "audit" and r["rank"] == 1] == ["n1"]
    assert scaled[-1]["lanes"][0]["scale"] == {
        "id": "distance",
        "min": "-Infinity",
        "max": 0.0,
        "direction": "lower_is_better",
    }


def test_a_precomputed_order_may_be_an_audit_turned_round(run_command, broker_address, notes, tmp_path):
    arguments = ["query", GOAL, "--address", broker_address, "--inline", f"notes={notes}", "--json"]
    rows = [record for record in _records(run_command(*arguments)) if record["event"] == "audit"]
    order = tmp_path / "order.jsonl"
    order.write_text("".join(json.dumps(row) + "\n" for row in reversed(rows)))
    again = _records(run_command(*arguments, "--strategy", "precomputed", "--order", str(order)))
    ranked = sorted((r for r in again if r["event"] == "audit"), key=lambda row: row["rank"])
    assert [row["frame_id"] for row in ranked] == [row["frame_id"] for row in reversed(rows)]


def test_a_reranker_is_named_and_its_work_is_shown(run_command, broker_address, notes):
    arguments = ["query", "what does the fold put first?", "--address", broker_address, "--inline", f"notes={notes}"]
    arguments += ["--rerank", "lexical", "--rerank-candidates", "2", "--rerank-top", "1", "--rerank-min", "0.1"]
    records = _records(run_command(*arguments, "--json"))
    rerank = records[-1]["rerank"]
    assert {name: rerank[name] for name in ("name", "candidates", "scored", "top_n", "min_score", "outcome")} == {
        "name": "lexical",
        "candidates": 2,
        "scored": 2,
        "top_n": 1,
        "min_score": 0.1,
        "outcome": "APPLIED",
    }
    rows = {record["frame_id"]: record for record in records if record["event"] == "audit"}
    assert {name: row["reason"] for name, row in rows.items()} == {
        "n1": "",
        "n2": "RERANK_TRIMMED",
        "n3": "RERANK_TRIMMED",
    }
    assert float(rows["n1"]["rerank_score"]) > float(rows["n2"]["rerank_score"])
    text = run_command(*arguments, "--quiet").stdout.decode()
    assert "rerank    lexical(candidates=2, top_n=1, min_score=0.1)" in text
    assert re.search(r"1  notes +#1  reranked [0-9.]+, was 1", text)
    assert "not among those that the reranker was to keep" in text
    assert "not among the 2 that lexical was given" in text


@pytest.mark.parametrize("option", ["--rerank-candidates", "--rerank-top", "--rerank-min"])
def test_what_a_reranker_is_told_needs_a_reranker(run_command, broker_address, option):
    done = run_command("query", GOAL, "--address", broker_address, option, "1")
    assert done.returncode == 2
    assert f"{option} goes with --rerank NAME" in done.stderr.decode()


def test_a_bad_line_of_inline_frames_exits_1_with_its_number(run_command, broker_address, notes):
    notes.write_text(notes.read_text() + '{"id": "n4"}\n')
    done = run_command("query", GOAL, "--address", broker_address, "--inline", f"notes={notes}")
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"{notes}, line 4: 'title' is missing or empty" in done.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--provider", "nobody"], 2, "PROVIDER_UNKNOWN"),
        (["--provider", "fqa"], 2, "--provider fqa: "),
        (["--provider", "fqa"], 2, "`context-broker providers`"),
        (["--require", "fqa"], 2, "--require fqa: "),
        (["--floor", "fqa:bm25=1"], 2, "--floor fqa:bm25=1: 'fqa' is "),
        (["--floor", "fqa:bm25=1"], 2, "; known: files, history, symbols"),
        (["--max-tokens", "9000000"], 2, "--max-tokens 9000000: asked for 9000000"),
        (["--floor", "files:unit=0.5"], 2, "FLOOR_SCALE"),
        (["--floor", "fils:bm25=-1"], 2, "FLOOR_UNKNOWN_PROVIDER"),
        (["--max-tokens", "5"], 2, "BUDGET_TOO_SMALL"),
        (["--strategy", "trust_weighted", "--weight", "files=nan"], 2, "WEIGHT"),
        (["--as-of", "yesterday"], 2, "--as-of yesterday: wrong form"),
        (["--no-providers"], 2, "--no-providers asks no attached provider, so it needs --inline or --expect-push"),
        (["--rerank", "nope"], 2, "RERANKER_UNKNOWN"),
        (["--rerank", "lexical", "--rerank-candidates", "5", "--rerank-top", "6"], 2, "RERANK_PARAMS"),
    ],
)
def test_what_the_broker_refuses_is_told_with_its_reason(run_command, served_address, arguments, code, says):
    done = run_command("query", GOAL, "--address", served_address, *arguments)
    assert (done.returncode, done.stdout) == (code, b"")
    assert says in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--budget-weight", "files=2"], "--budget-weight goes with --budget-split weighted"),
        (
            ["--budget-split", "weighted", "--budget-weight", "a=1", "--budget-weight", "a=2"],
            "--budget-weight names a provider twice",
        ),
        (["--fold-min-tokens", "9"], "--fold-min-tokens goes with --placement auto"),
        (["--strategy", "kind_first"], "is named with --plugin kind_first"),
        (["--safety-factor", "0.5"], "--safety-factor"),
        (["--mode", "json", "--restate-question"], "--restate-question: "),
        (["--tokenizer", "nope"], "TOKENIZER_UNKNOWN"),
        (["--budget-split", "weighted", "--budget-weight", "nobody=2"], "--budget-weight nobody=2: "),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(run_command, served_address, arguments, says):
    done = run_command("query", GOAL, "--address", served_address, *arguments)
    assert (done.returncode, done.stdout) == (2, b"")
    assert says in done.stderr.decode()


def test_terms_of_budget_form_and_place_reach_the_broker_and_the_page(run_command, served_address, tmp_path):
    terms = ["--mode", "markdown", "--placement", "auto", "--fold-min-tokens", "100", "--safety-factor", "1.25"]
    terms += ["--budget-split", "weighted", "--budget-weight", "files=3", "--max-frames-per-source", "1"]
    terms += ["--max-frames", "4", "--max-frames-per-provider", "9", "--tokenizer", "bytes/4"]
    saved = tmp_path / "saved.jsonl"
    done = run_command("query", GOAL, "--address", served_address, *terms, "--save", str(saved))
    text = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert "of 3,200 tokens (4,000 by the safety factor 1.25)" in text
    assert "render    MARKDOWN" in text
    assert "split WEIGHTED" in text
    assert "placement FOLD: AUTO, for a prompt of at least 100 tokens" in text
    assert "limit     max_frames_per_provider yields to max_frames" in text
    accepted, *_, completed = map(json.loads, saved.read_text().splitlines())
    grants = {lane["provider"]: lane["max_tokens"] for lane in accepted["lanes"]}
    assert grants["files"] > grants["symbols"] == grants["history"]
    assert (completed["render"]["mode"], completed["placement_asked"]) == ("MARKDOWN", "AUTO")
    assert run_command("explain", str(saved), "--replay").returncode == 0


def test_snapshots_come_while_a_lane_is_waited_for_and_change_nothing(run_command, served_address, tmp_path):
    saved = tmp_path / "saved.jsonl"
    wait = ["--address", served_address, "--expect-push", "late", "--request-id", "r-snapshots", "--timeout", "1"]
    records = _records(run_command("query", GOAL, *wait, "--snapshots", "--json", "--save", str(saved)))
    events = [record["event"] for record in records]
    assert list(dict.fromkeys(events)) == ["accepted", "lane", "snapshot", "placed", "audit", "completed"]
    last = [record for record in records if record["event"] == "snapshot"][-1]
    assert last["collecting"] == ["late"]
    placed = [record for record in records if record["event"] == "placed"]
    assert [record for record in last["records"] if record["event"] == "placed"] == placed
    kept = [json.loads(line) for line in saved.read_text().splitlines()]
    assert kept == [record for record in records if record["event"] != "snapshot"]
    told = run_command("query", GOAL, *wait, "--snapshots", "--prompt")
    assert told.stdout == run_command("query", GOAL, *wait, "--prompt").stdout
    assert re.search(r"^snapshot \d: .*; waiting for late$", told.stderr.decode(), re.MULTILINE)


def test_an_empty_goal_is_wrong_usage(run_command, served_address):
    done = run_command("query", "", "--address", served_address)
    assert done.returncode == 2
    assert "GOAL: is empty" in done.stderr.decode()


def test_a_goal_of_several_arguments_is_told_to_be_quoted(run_command):
    done = run_command("query", "how", "do", "I", "reset", "it")
    assert done.returncode == 2
    assert 'quote it: "how do I reset it"' in done.stderr.decode()


def test_an_error_record_keeps_the_field_and_says_what_was_typed(run_command, served_address):
    done = run_command("query", GOAL, "--address", served_address, "--provider", "fqa", "--json")
    (violation,) = json.loads(done.stdout.splitlines()[-1])["violations"]
    assert (violation["field"], violation["option"]) == ("providers[0]", "--provider fqa")


def test_frames_off_their_scale_are_remarked_on_whatever_is_printed(run_command, broker_address, tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps({**note, "score": 12.5}) + "\n" for note in NOTES))
    arguments = ["query", GOAL, "--address", broker_address, "--inline", f"mine={path}"]
    for more in (["-q"], ["-q", "--prompt"], ["--json"]):
        done = run_command(*arguments, *more)
        assert done.returncode == 0
        assert "note: mine: 3 of 3 frames broke a rule" in done.stderr.decode()
        assert "--inline-scale mine=ID:MIN:MAX" in done.stderr.decode()
    assert run_command(*arguments, "-q", "--inline-scale", "mine=hits:0:100").stderr == b""


def test_a_prompt_without_a_frame_is_remarked_on(run_command, broker_address, notes):
    arguments = ["query", GOAL, "--address", broker_address, "--inline", f"notes={notes}", "--prompt", "-q"]
    done = run_command(*arguments, "--max-tokens", "95")
    assert done.returncode == 0
    assert done.stdout
    assert "note: no frame was placed: OVER_BUDGET 3" in done.stderr.decode()


@pytest.mark.parametrize("command", [["query", GOAL], ["providers"], ["strategies"]])
def test_no_broker_exits_1_with_the_address_and_what_to_do(run_command, command):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        done = run_command(*command, env={"CONTEXT_BROKER_ADDRESS": address})
    assert (done.returncode, done.stdout) == (1, b"")
    assert address in done.stderr.decode()
    assert "context-broker serve" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_ctrl_c_while_collecting_exits_130_without_a_traceback(command_line, plain_environment, broker_address):
    arguments = ["--request-id", "never", "--expect-push", "nobody", "--timeout", "60", "--json"]
    process = subprocess.Popen(
        command_line("query", GOAL, "--address", broker_address, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=plain_environment,
    )
    assert json.loads(process.stdout.readline())["event"] == "accepted"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in err


@pytest.mark.parametrize("output", [["--json"], ["--prompt"], []])
def test_a_closed_pipe_ends_it_quietly(command_line, plain_environment, broker_address, notes, output):
    read, write = os.pipe()
    os.close(read)
    arguments = ["query", GOAL, "--address", broker_address, "--inline", f"notes={notes}", "--quiet", *output]
    process = subprocess.Popen(command_line(*arguments), stdout=write, stderr=subprocess.PIPE, env=plain_environment)
    os.close(write)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (1, b"")


def test_a_composition_that_could_not_be_recorded_says_so(run_command, start_command, tmp_path):
    config, file = tmp_path / "broker.toml", tmp_path / "records.db"
    store = f'kind = "sqlite"\nfile = "{file}"\nwait_seconds = 0.2\n'
    config.write_text(f'[server]\nlisten = "127.0.0.1:0"\n[store]\n{store}')
    address = start_command("serve", "--config", str(config)).ready["address"]
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"id": "n", "title": "N", "content": "text", "score": 1}\n')
    question = ["query", "why?", "--inline", f"notes={notes}", "--no-providers", "--address", address]
    assert _records(run_command(*question, "--json"))[-1]["audit_state"] == "RECORDED"
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        degraded = run_command(*question, "--json")
        assert _records(degraded)[-1]["audit_state"] == "DEGRADED"
        assert b"not on record" in degraded.stderr
        assert b", not on record (DEGRADED)" in run_command(*question).stdout
