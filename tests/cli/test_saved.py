"""A saved composition is the lines of ``query --json``, and reads back as the composition that was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.cli.asked import Asked, asked, asked_record, read_asked
from broker.cli.decode import read_audit, read_composition, read_placed, read_update
from broker.cli.encode import composition_records, update_record
from broker.cli.errors import Failure
from broker.cli.fields import Fields
from broker.cli.saved import read_saved, save_records
from broker.core.composition import Composition
from broker.core.lanes import LaneEnd, LaneUpdate
from broker.core.request import CompositionRequest, Floor, Placement
from broker.core.strategies import PluginStrategy, RoundRobin
from tests.cli.documents import composed, document, records_of, write
from tests.wire import values

DECODER = {"placed": read_placed, "audit": read_audit}


def through_json(record):
    """A record as a reader finds it; infinite numbers are none in JSON, and such values are never composed."""
    try:
        return Fields(json.loads(json.dumps(record, allow_nan=False)))
    except ValueError:
        assume(False)


def as_composed(composition: Composition) -> Composition:
    """Placed frames carry no score, and a reranker's score is a number."""
    placed = tuple(replace(one, frame=replace(one.frame, score=None)) for one in composition.placed)
    audit = tuple(replace(row, rerank_score="0.25" if row.rerank_score else "") for row in composition.audit)
    return replace(composition, placed=placed, audit=audit)


@given(values.compositions().map(as_composed))
def test_any_composition_reads_back_equal(composition):
    *parts, completed = map(through_json, composition_records(composition))
    read = [(part.text("event"), DECODER[part.text("event")](part)) for part in parts]
    placed = [value for event, value in read if event == "placed"]
    audit = [value for event, value in read if event == "audit"]
    assert read_composition(placed, audit, completed) == composition


strategies = values.strategies | st.builds(
    PluginStrategy, st.just("theirs"), st.dictionaries(values.texts, values.texts, max_size=2)
)


@given(
    values.requests,
    st.none() | strategies,
    values.texts,
    st.none() | st.floats(0.1, 9),
    values.tuples(values.texts),
    values.weights,
    values.texts,
)
def test_any_question_reads_back_equal(request, strategy, goal, timeout, names, parts, tokenizer):
    lists = ("kinds", "anchors", "providers", "required_providers", "expect_pushes")
    one = Asked(
        goal=goal,
        composition=replace(request, strategy=strategy or RoundRobin(), tokenizer=tokenizer or "bytes/4"),
        strategy_named=strategy is not None,
        tokenizer=tokenizer,
        collect_timeout=timeout,
        scope=dict.fromkeys(lists, names),
        budget_weights=parts,
    )
    assert read_asked(through_json(asked_record(one))) == one


@given(values.names, st.none() | st.sampled_from(LaneEnd), values.counts, values.texts)
def test_any_update_reads_back_equal(provider, end, frames, message):
    update = LaneUpdate(provider, end, frames, message)
    assert read_update(through_json(update_record(update))) == update


def test_what_is_asked_has_every_default_and_the_restated_question():
    bare = asked("how?", {"max_tokens": 9})
    assert bare.composition == CompositionRequest(max_tokens=9)
    assert not bare.strategy_named
    options = {"max_tokens": 9, "query_text": "words", "restate_question": True, "placement": Placement.CANONICAL}
    full = asked("how?", {**options, "providers": ["a"], "floors": [Floor("a", "unit", 0.5)]})
    assert (full.composition.question, full.composition.placement) == ("words", Placement.CANONICAL)
    assert (full.scope["providers"], full.composition.floors) == (("a",), (Floor("a", "unit", 0.5),))


def test_a_document_holds_the_question_the_lanes_and_their_times(tmp_path):
    composition, request = composed()
    saved = read_saved(write(tmp_path / "c.json", records_of(composition, request)))
    assert saved.composition == composition
    assert saved.asked is not None
    assert saved.asked.composition == request
    assert [lane.provider for lane in saved.opened] == ["docs", "late", "notes"]
    assert [(t.update.provider, t.update.state, t.ms) for t in saved.updates] == [
        ("docs", "COLLECTING", 20.0),
        ("docs", "COMPLETE", 30.0),
        ("late", "TIMED_OUT", 40.0),
        ("notes", "COLLECTING", 22.0),
        ("notes", "COMPLETE", 50.0),
    ]
    assert (saved.accepted_ms, saved.completed_ms) == (5.0, 80.5)


def test_a_composition_alone_is_a_document_too(tmp_path):
    composition, _ = composed()
    saved = read_saved(write(tmp_path / "c.json", records_of(composition, None)))
    assert (saved.composition, saved.asked, saved.updates) == (composition, None, ())


def test_the_file_is_what_json_prints(run_command, broker_address, tmp_path):
    notes = tmp_path / "notes.jsonl"
    notes.write_text('{"id": "n", "title": "N", "content": "text", "score": 1}\n')
    file = tmp_path / "c.json"
    arguments = ["query", "why?", "--address", broker_address, "--inline", f"notes={notes}", "--save", str(file)]
    done = run_command(*arguments, "--json")
    assert done.returncode == 0, done.stderr.decode()
    assert file.read_bytes() == done.stdout
    saved = read_saved(file)
    assert saved.asked is not None
    assert saved.asked.goal == "why?"
    assert saved.completed_ms >= saved.accepted_ms > 0
    assert run_command(*arguments).returncode == 0
    assert read_saved(file).composition.prompt == saved.composition.prompt


def test_a_folder_that_is_not_there_is_refused_before_anything_is_asked(run_command, tmp_path):
    done = run_command("query", "why?", "--address", "127.0.0.1:1", "--save", str(tmp_path / "no" / "c.json"))
    assert done.returncode == 2
    assert b"is not a directory" in done.stderr


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path):
    file = document(tmp_path / "c.json")
    before = file.read_bytes()
    with pytest.raises(ValueError):
        save_records(file, [{"event": "completed", "ms": float("nan")}])
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["c.json"]


def test_a_saved_file_keeps_the_mode_of_the_one_that_it_replaces(tmp_path):
    file = tmp_path / "c.json"
    save_records(file, [{"event": "x"}])
    file.chmod(0o600)
    save_records(file, [{"event": "y"}])
    assert file.stat().st_mode & 0o777 == 0o600


def _first(event, **changes):
    """Changes the first record of an event; a change that is a function is given the old value."""

    def change(records):
        index = next(i for i, record in enumerate(records) if record["event"] == event)
        old = records[index]
        new = {name: value(old[name]) if callable(value) else value for name, value in changes.items()}
        return [*records[:index], {**old, **new}, *records[index + 1 :]]

    return change


def _asked_for(name, params):
    return _first("accepted", request=lambda request: {**request, "strategy": {"name": name, "params": params}})


BROKEN = [
    (lambda records: records[:-1], "no whole composition"),
    (lambda records: [*records, records[0]], "goes on after its composition's end"),
    (lambda records: [{"event": "started"}, *records], "event 'started'"),
    (lambda _: [{"event": "error", "message": "gone\x1b[2J"}], "failure and no composition: gone⟦U+001B⟧"),
    (lambda _: [{"no": "event"}], "line 1: 'event' is missing"),
    (_first("audit", rank=-1), "'rank' is not a whole number from 0: -1"),
    (_first("audit", rank=True), "'rank' is not a whole number"),
    (_first("audit", fate="MAYBE"), "'fate' is 'MAYBE', and may be INCLUDED, EXCLUDED"),
    (_first("audit", rerank_score="nan"), "'rerank_score' is not a finite number"),
    (_first("audit", conflicts=[1]), "'conflicts[0]' is not an object"),
    (_first("placed", frame=[]), "'frame' is not an object"),
    (_first("placed", position=7), "placed frames are not those of positions"),
    (_first("placed", vouchers=[]), "no one who vouches"),
    (_first("placed", provider="other"), "the rows that say so are not the same"),
    (_first("lane", state="GONE"), "'state' is 'GONE', and may be COMPLETE"),
    (_first("completed", lanes=[]), "which has no lane"),
    (_first("completed", preamble=None), "'preamble' is not a text"),
    (_first("completed", strategy=lambda old: {**old, "name": "trust_weighted"}), "do not belong to trust_weighted"),
    (_asked_for("precomputed", {"ids": [1]}), "not a list of [provider, frame id]"),
    (_asked_for("round_robin", {"x": 1}), "do not belong to round_robin"),
]


@pytest.mark.parametrize(("broken", "words"), BROKEN)
def test_what_is_no_document_is_refused_in_plain_words(tmp_path: Path, broken, words):
    composition, request = composed()
    file = write(tmp_path / "c.json", broken(records_of(composition, request)))
    with pytest.raises(Failure, match=r"c\.json") as refused:
        read_saved(file)
    assert words in refused.value.message


@given(st.data())
def test_no_broken_field_is_a_traceback(tmp_path_factory, data):
    """Any one value of any record is replaced by another JSON value: it reads, or it fails in plain words."""
    composition, request = composed()
    records = json.loads(json.dumps(records_of(composition, request)))
    record = data.draw(st.sampled_from(records))
    place, key = record, data.draw(st.sampled_from(sorted(record)))
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    place[key] = data.draw(
        st.none() | st.booleans() | st.integers(-2, 2**70) | values.texts | st.just([]) | st.just({})
    )
    file = write(tmp_path_factory.mktemp("broken") / "c.json", records)
    try:
        saved = read_saved(file)
    except Failure:
        return
    from broker.cli.explain import explanation_lines
    from broker.cli.output import Style
    from broker.cli.page import page_of
    from broker.cli.story import stories
    from broker.core.replay import replay

    told = stories(saved.composition)
    checks = replay(saved.composition, saved.asked.composition if saved.asked else None)
    assert list(explanation_lines(saved, told, checks, Style()))
    assert page_of(saved, told, checks)
