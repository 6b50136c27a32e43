"""Frames are named by label or as PROVIDER/ID, and the stronger observation brings the weaker ones along."""

from __future__ import annotations

import json

import pytest

from broker.cli.errors import Failure
from broker.cli.report import named, observations, reported_line
from broker.core.frames import FrameRef
from broker.core.records import Observation
from tests.cli.documents import HOSTILE, composed

FOLD, ROBIN = FrameRef("docs", "d1"), FrameRef("notes", "n4")


@pytest.mark.parametrize(
    ("name", "ref"),
    [("Round robin", ROBIN), ("notes/n4", ROBIN), ("docs/d1", FOLD), (f"docs/{HOSTILE}", FrameRef("docs", HOSTILE))],
)
def test_a_placed_frame_has_two_names(name, ref):
    assert named(composed()[0], name) == ref


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Round robbin", "no frame 'Round robbin'; did you mean 'Round robin'?"),
        ("docs/d5", "placed no frame 'docs/d5'"),
        ("\x1b[2J", "no frame '⟦U+001B⟧[2J'"),
    ],
)
def test_what_was_not_placed_is_refused(name, words):
    with pytest.raises(Failure, match="placed no frame") as caught:
        named(composed()[0], name)
    assert words in caught.value.format_message()
    assert (caught.value.reason, caught.value.exit_code) == ("FRAME_NOT_PLACED", 2)


def test_a_label_of_several_frames_names_none_of_them(compose_by_hand):
    composition = compose_by_hand(["files", "symbols"], label=lambda *_: "same")
    with pytest.raises(Failure) as caught:
        named(composition, "same")
    assert caught.value.reason == "LABEL_AMBIGUOUS"
    assert "files/files-1, symbols/symbols-1" in caught.value.message
    assert named(composition, "symbols/symbols-1") == FrameRef("symbols", "symbols-1")


def test_what_was_seen_is_coherent_and_said_once_for_each_frame(compose_by_hand):
    composition = compose_by_hand(["files", "symbols", "history"])
    files, symbols, history = (FrameRef(name, f"{name}-1") for name in ("files", "symbols", "history"))
    seen = observations(composition, selected=[files, symbols], rendered=[symbols, history], cited=[history, history])
    assert {(one.provider, one.selected, one.rendered, one.cited) for one in seen} == {
        ("files", True, False, False),
        ("symbols", True, True, False),
        ("history", True, True, True),
    }
    assert len(seen) == 3
    assert reported_line("c", seen) == "reported of composition c: 3 frames selected, 2 rendered, 1 cited"
    assert observations(composition) == []
    assert Observation("files", "files-1", True, True, False) in observations(composition, rendered=[files])


def test_something_must_have_been_seen(run_command):
    done = run_command("report", "019aaaaa-0000-7000-8000-000000000000")
    assert done.returncode == 2
    assert b"say what was seen" in done.stderr


def test_what_was_reported_is_counted(run_command, recording_broker, recorded):
    address, composition_id = recording_broker, recorded(provider="reported")
    done = run_command("report", composition_id, "--cited", "One", "--selected", "reported/n2", "--address", address)
    assert done.stdout.decode().endswith(": 2 frames selected, 1 rendered, 1 cited\n"), done.stderr.decode()
    done = run_command("report", composition_id, "--whole-prompt", "--address", address, "--json")
    expected = {"event": "reported", "composition_id": composition_id, "selected": 2, "rendered": 2, "cited": 0}
    assert json.loads(done.stdout) == expected
    stats = run_command("providers", "stats", "--since", "1h", "--address", address, "--json")
    counted = {each["provider"]: each for each in map(json.loads, stats.stdout.splitlines())}["reported"]
    assert [counted[name] for name in ("asked", "placed", "selected", "rendered", "cited")] == [1, 2, 2, 2, 1]
    done = run_command("report", composition_id, "--cited", "Onne", "--address", address)
    assert (done.returncode, b"did you mean 'One'" in done.stderr) == (2, True)
