"""What a broker has on record is listed by what became of a frame, shown, exported and explained by its id."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from broker.cli.compositions import export, listed_lines
from broker.cli.output import Style
from broker.cli.recorded import document_records, saved_record
from broker.cli.saved import read_saved
from broker.cli.text import width
from broker.client import ListedComposition
from broker.errors import NotFound
from tests.cli.documents import record

NOTHING = "019aaaaa-0000-7000-8000-000000000000"


def test_the_list_is_no_wider_than_its_page(compose_by_hand):
    composition = compose_by_hand()
    found = [
        ListedComposition(
            composition_id=NOTHING,
            request_id="r",
            subject=subject,
            made_at=0.0,
            summary=composition.summary,
            usage=composition.usage,
            request=None,
            content=False,
        )
        for subject in ("", "spiffe://example.org/\x1b[2J")
    ]
    plain, named = listed_lines(found[:1], Style()), listed_lines(found, Style())
    assert plain[0].split()[:3] == ["made", "composition", "strategy"]
    assert plain[1].startswith(f"1970-01-01T00:00Z  {NOTHING}  round_robin")
    assert "asked by" in named[0]
    assert "\x1b" not in "".join(named)
    assert all(width(line) <= 100 for line in plain + named)
    assert all(width(line) <= 80 and NOTHING in line for line in listed_lines(found, Style(width=80))[1:3])
    assert listed_lines([], Style()) == []


@pytest.fixture(scope="module")
def two(recorded):
    """Two compositions, the older first; the newer one left a frame out."""
    return recorded(provider="listed"), recorded(provider="listed", max_frames="1")


def test_a_list_is_found_by_what_became_of_a_frame(run_command, recording_broker, two):
    def ids(*arguments):
        done = run_command("compositions", "list", *arguments, "--address", recording_broker, "--json")
        assert done.returncode == 0, done.stderr.decode()
        return [json.loads(line)["composition_id"] for line in done.stdout.splitlines()]

    assert ids("--provider", "listed") == [two[1], two[0]]
    assert ids("--provider", "listed", "--limit", "1") == [two[1]]
    assert ids("--provider", "listed", "--frame", "n2", "--placed") == [two[0]]
    assert ids("--provider", "listed", "--frame", "n2", "--excluded") == [two[1]]
    assert ids("--provider", "listed", "--excluded-for", "FRAME_LIMIT", "--since", "1h") == [two[1]]
    assert ids("--provider", "listed", "--until", "1970-01-02") == []


def test_records_of_a_list_have_stable_names(run_command, recording_broker, two):
    done = run_command("compositions", "list", "--provider", "listed", "--address", recording_broker, "--json")
    record = json.loads(done.stdout.splitlines()[0])
    names = {"event", "composition_id", "request_id", "made_at", "subject", "content", "request", "strategy", "usage"}
    names |= {
        "placement",
        "placement_asked",
        "fold_min_tokens",
        "render",
        "duplicates",
        "budget",
        "limits",
        "limit_conflicts",
    }
    assert set(record) == names | {"lanes", "floors", "rows", "reasons", "rerank"}
    assert (record["event"], record["content"], record["reasons"]) == (
        "composition",
        True,
        {"INCLUDED": 1, "FRAME_LIMIT": 1},
    )
    assert record["request"]["goal"] == "how does it fold?"


def test_more_than_the_limit_is_said_and_nothing_too(run_command, recording_broker, two):
    arguments = ["compositions", "list", "--provider", "listed", "--address", recording_broker]
    text = run_command(*arguments, "--limit", "1").stdout.decode()
    assert (two[1] in text, two[0] in text) == (True, False)
    assert "and more: --limit lists more than 1" in text
    assert "and more" not in run_command(*arguments).stdout.decode()
    nothing, *advice = run_command(*arguments, "--frame", "nowhere").stdout.decode().splitlines()
    assert nothing.endswith("has no such composition on record")
    assert "--document PATH" in advice[0]
    assert "--provider NAME alone" in advice[1]
    without = run_command(*arguments, "--until", "1970-01-02").stdout.decode()
    assert len(without.splitlines()) == 1


def test_a_frame_is_found_by_its_document_and_by_the_name_that_explain_takes(run_command, recording_broker, two):
    def ids(*arguments, command="list"):
        done = run_command("compositions", command, *arguments, "--address", recording_broker, "--json")
        assert done.returncode == 0, done.stderr.decode()
        found = map(json.loads, done.stdout.splitlines())
        return [each["composition_id"] for each in found if each["event"] in ("composition", "recorded")]

    for option in ("--frame", "--document"):
        assert (
            ids(option, "listed/n2", "--excluded")
            == ids(option, "n2", "--provider", "listed", "--excluded")
            == [two[1]]
        )
        assert ids(option, "listed/n2", "--excluded", command="export") == [two[1]]
        assert ids(option, "listed/n2", "--provider", "other") == []


def test_one_is_shown_as_query_shows_it(run_command, recording_broker, two):
    text = run_command("compositions", "show", two[0], "--address", recording_broker).stdout.decode()
    assert text.startswith("question  how does it fold?\n")
    for title in ("LANES", "RANKING", "PROMPT", "LEFT OUT", "recorded  "):
        assert f"\n{title}" in text
    as_json = run_command("compositions", "show", two[0], "--address", recording_broker, "--json").stdout
    assert as_json == run_command("compositions", "export", two[0], "--address", recording_broker).stdout


def test_an_id_is_explained_and_replays_from_the_record_alone(run_command, recording_broker, two):
    done = run_command("explain", two[1], "--address", recording_broker, "--replay", "--json")
    assert done.returncode == 0, done.stderr.decode()
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert records[-1]["agrees"] is True
    verdicts = {each["name"]: each["verdict"] for each in records if each["event"] == "check"}
    assert {verdicts[name] for name in ("blocks", "texts", "labels", "packing")} == {"AGREES"}
    why = run_command("explain", two[1], "--address", recording_broker, "--frame", "listed/n2").stdout.decode()
    assert "left out, FRAME_LIMIT" in why


def test_an_export_is_read_by_explain_as_the_record_is(run_command, recording_broker, two, tmp_path):
    done = run_command("compositions", "export", *two, "--address", recording_broker)
    lines = done.stdout.splitlines(keepends=True)
    starts = [n for n, line in enumerate(lines) if json.loads(line)["event"] == "recorded"]
    assert [json.loads(lines[n])["composition_id"] for n in starts] == list(two)
    file = tmp_path / "one.jsonl"
    file.write_bytes(b"".join(lines[starts[1] :]))
    from_file = run_command("explain", str(file), "--replay")
    assert from_file.returncode == 0, from_file.stderr.decode()
    assert from_file.stdout == run_command("explain", two[1], "--address", recording_broker, "--replay").stdout
    filtered = run_command(
        "compositions", "export", "--provider", "listed", "--limit", "2", "--address", recording_broker
    )
    assert filtered.stdout.splitlines(keepends=True) == lines[starts[1] :] + lines[: starts[1]]
    both = tmp_path / "both.jsonl"
    both.write_bytes(done.stdout)
    refused = run_command("explain", str(both))
    assert (refused.returncode, b"give a document of one composition" in refused.stderr) == (1, True)


def test_what_was_asked_and_answered_is_what_query_saved(run_command, recording_broker, recorded, tmp_path):
    file = tmp_path / "asked.jsonl"
    composition_id = recorded(provider="saved", save=str(file), strategy="reciprocal_rank_fusion")
    exported = tmp_path / "exported.jsonl"
    exported.write_bytes(run_command("compositions", "export", composition_id, "--address", recording_broker).stdout)
    saved, kept = read_saved(file), read_saved(exported)
    assert (kept.composition, kept.asked) == (saved.composition, saved.asked)
    assert kept.on_record is not None
    assert kept.on_record.content


def test_without_content_all_but_content_is_told(run_command, broker_address, tmp_path):
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"id": "n", "title": "Fold", "content": "text", "score": 1}\n')
    question = ["query", "what only I know", "--inline", f"bare={notes}", "--no-providers", "--json"]
    done = run_command(*question, "--address", broker_address)
    composition_id = json.loads(done.stdout.splitlines()[-1])["composition_id"]
    export = run_command("compositions", "export", composition_id, "--address", broker_address).stdout
    assert b"only I know" not in export
    assert b'"text"' not in export
    told = run_command("explain", composition_id, "--address", broker_address, "--replay")
    assert told.returncode == 0, told.stderr.decode()
    assert "recorded" in told.stdout.decode()
    assert "without content" in told.stdout.decode()
    assert "bare #1" in told.stdout.decode()
    frame = run_command("explain", composition_id, "--address", broker_address, "--frame", "bare/n").stdout.decode()
    assert "its content was not kept" in frame
    page = tmp_path / "page.html"
    run_command("explain", composition_id, "--address", broker_address, "--html", str(page))
    assert "its content was not kept" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["show", NOTHING], 1, "COMPOSITION_UNKNOWN"),
        (["export", NOTHING], 1, "COMPOSITION_UNKNOWN"),
        (["show", "nothing"], 2, "is no id of a composition"),
        (["export", NOTHING, "--provider", "a"], 2, "and not both"),
        (["list", "--limit", "0"], 2, "x>=1"),
        (["list", "--frame", "f" * 513], 2, "--frame ffff"),
    ],
)
def test_what_goes_wrong_is_said_plainly(run_command, broker_address, arguments, code, words):
    done = run_command("compositions", *arguments, "--address", broker_address)
    assert (done.returncode, done.stdout) == (code, b"")
    assert words in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_broker_that_keeps_nothing_says_so(run_command, start_command, tmp_path):
    config = tmp_path / "broker.toml"
    config.write_text('[server]\nlisten = "127.0.0.1:0"\n[store]\nkind = "none"\n')
    address = start_command("serve", "--config", str(config)).ready["address"]
    for arguments in (["compositions", "list"], ["explain", NOTHING], ["providers", "stats"]):
        done = run_command(*arguments, "--address", address)
        assert (done.returncode, b"NOT_KEPT" in done.stderr) == (1, True)


def test_one_that_is_forgotten_while_others_are_exported_is_passed_over(monkeypatch):
    found = record(content=True)

    class Forgetful:
        def __init__(self, *_, **__):
            pass

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            pass

        async def compositions(self, **_):
            for name in ("forgotten", "kept"):
                yield SimpleNamespace(composition_id=name)

        async def composition(self, composition_id, tenant):
            if composition_id == "forgotten":
                raise NotFound("COMPOSITION_UNKNOWN", "there is no composition of this id")
            return found

    monkeypatch.setattr("broker.client.ContextClient", Forgetful, raising=False)
    done = CliRunner().invoke(export, [])
    assert done.stdout.splitlines() == [json.dumps(one) for one in document_records(saved_record(found))]
