"""What a store gives back is a document as any other: it says where it is from, and reads back as it was written."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from broker.cli.asked import Asked, asked_of
from broker.cli.errors import Failure
from broker.cli.recorded import COMPOSITION_ID, FILE_OR_ID, document_records, recorded_text, saved_record
from broker.cli.saved import OnRecord, read_saved
from broker.client import ComposeCall
from tests.cli.documents import composed, record, write

ID = "019aaaaa-0000-7000-8000-000000000000"


@pytest.mark.parametrize("content", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_a_record_reads_back_as_the_document_that_it_was_written_as(tmp_path, content, known):
    saved = saved_record(record(content=content, known=known))
    assert read_saved(write(tmp_path / "c.jsonl", list(document_records(saved)))) == saved
    assert saved.on_record == OnRecord("1970-01-01T00:00:00Z", "agent", content)
    assert saved.goal == ("how?" if content and known else "")
    assert len(saved.composition.placed) == len(composed()[0].placed)
    assert bool(saved.composition.prompt) is content


def test_what_was_asked_is_told_as_the_caller_knows_it():
    _, request = composed()
    call = ComposeCall(goal="g", composition=request, kinds=("doc",), budget_weights={"a": 2.0}, collect_timeout=1.5)
    told = asked_of(call)
    assert isinstance(told, Asked)
    assert (told.goal, told.composition, told.strategy_named) == ("g", call.composition, False)
    assert (told.scope["kinds"], told.budget_weights, told.collect_timeout) == (("doc",), {"a": 2.0}, 1.5)


@pytest.mark.parametrize(
    ("kept", "text"),
    [
        (OnRecord("t", "", True), "t"),
        (OnRecord("t", "agent", False), "t, asked by agent, without content"),
        (OnRecord("t", "\x1b[2J", True), "t, asked by ⟦U+001B⟧[2J"),
    ],
)
def test_where_it_is_from_is_said_in_a_line(kept, text):
    assert recorded_text(kept) == text


def test_an_argument_is_a_file_where_there_is_one_and_else_may_be_an_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert FILE_OR_ID.convert(ID.upper(), None, None) == ID
    assert FILE_OR_ID.convert("-", None, None) == Path("-")
    (tmp_path / ID).write_text("")
    assert FILE_OR_ID.convert(ID, None, None) == Path(ID)
    for text in ("no-such-file", ID[:8], f"{ID}0"):
        with pytest.raises(click.BadParameter, match="neither a file that is there nor a whole id"):
            FILE_OR_ID.convert(text, None, None)


@pytest.mark.parametrize("text", ["", "c-1", ID[:-1], f"{ID}0", f"{ID}\n", ID.replace("a", "g")])
def test_what_is_no_id_is_refused_before_anything_is_asked(text):
    assert COMPOSITION_ID.convert(ID, None, None) == ID
    with pytest.raises(click.BadParameter, match="is no id of a composition"):
        COMPOSITION_ID.convert(text, None, None)


def test_a_document_of_two_is_refused(tmp_path):
    lines = list(document_records(saved_record(record(content=True))))
    with pytest.raises(Failure, match="give a document of one composition"):
        read_saved(write(tmp_path / "c.jsonl", lines * 2))
