"""A push delivers a whole file or nothing, before or after the question that waits for it."""

from __future__ import annotations

import json

import pytest

FRAMES = [{"id": f"p{n}", "title": f"P{n}", "content": f"pushed {n}", "score": n / 10} for n in range(1, 4)]


@pytest.fixture
def frames(tmp_path):
    path = tmp_path / "frames.jsonl"
    path.write_text("".join(json.dumps(frame) + "\n" for frame in FRAMES))
    return path


def test_a_push_before_the_question_is_in_its_composition(run_command, broker_address, frames):
    done = run_command("push", "web", "early", str(frames), "--address", broker_address, "--json")
    assert json.loads(done.stdout) == {"event": "pushed", "provider": "web", "request_id": "early", "frames": 3}
    asked = run_command(
        *("query", "q", "--address", broker_address, "--request-id", "early", "--expect-push", "web", "--json")
    )
    records = [json.loads(line) for line in asked.stdout.splitlines()]
    assert [r["frame"]["id"] for r in records if r["event"] == "placed"] == ["p3", "p1", "p2"]


def test_standard_input_and_a_scale(run_command, broker_address, frames):
    data = frames.read_bytes().replace(b'"score": 0.', b'"score": -4')
    arguments = ["push", "index", "scaled", "-", "--address", broker_address, "--scale", "bm25:-inf:0:lower"]
    done = run_command(*arguments, input=data)
    assert (done.returncode, done.stdout) == (0, b"3 frames pushed as index for request scaled\n")


def test_a_bad_line_sends_nothing(run_command, broker_address, frames):
    frames.write_text(frames.read_text() + '{"id": "p4", "title": "P4", "content": "c", "score": "high"}\n')
    done = run_command("push", "web", "bad", str(frames), "--address", broker_address)
    assert (done.returncode, done.stdout) == (1, b"")
    assert "line 4: 'score' must be a number" in done.stderr.decode()
    asked = run_command(
        *("query", "q", "--address", broker_address, "--request-id", "bad", "--expect-push", "web", "--timeout", "0.2")
    )
    assert asked.returncode == 1
    assert "TIMED_OUT" in asked.stderr.decode()


def test_a_wrong_provider_name_is_refused(run_command, broker_address, frames):
    done = run_command("push", "Not A Name", "r", str(frames), "--address", broker_address)
    assert done.returncode == 2
    assert "PROVIDER Not A Name: wrong form" in done.stderr.decode()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"score": None}, "SCORE_MISSING"),
        ({"score": 5}, "SCORE_RANGE: scale 'unit' goes from 0 to 1; --scale names another scale"),
        ({"token_cost": 99}, "COST_MISMATCH: declared 99, computed 3"),
        ({"content_digest": "sha256:" + "0" * 64}, "DIGEST_MISMATCH"),
        ({"content_digest": "md5"}, "DIGEST_MALFORMED"),
        ({"valid_from": "today"}, "TIMESTAMP_MALFORMED"),
        ({"id": "p1"}, "EQUIVOCATION"),
        ({"title": "t" * 2000}, "TITLE_TOO_LONG"),
        ({"kind": "faq"}, "'kind' is 'faq', and may be snippet, symbol, fact, doc, memory, episode, graph"),
    ],
)
def test_what_the_broker_would_drop_or_call_a_lie_is_told_with_its_line_and_not_sent(run_command, frames, wrong, says):
    frames.write_text(frames.read_text() + json.dumps({**FRAMES[0], "id": "p4", "content": "other words", **wrong}))
    # No broker is there: it is not even asked.
    done = run_command("push", "web", "r", str(frames), "--address", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (1, b"")
    assert f"{frames}, line 4: {says}" in done.stderr.decode()


def test_a_score_is_held_against_the_scale_that_was_given(run_command, broker_address, frames):
    arguments = ["push", "ratings", "r", str(frames), "--address", broker_address]
    assert run_command(*arguments, "--scale", "stars:0:0.1").returncode == 1
    assert run_command(*arguments, "--scale", "stars:0:5").returncode == 0
