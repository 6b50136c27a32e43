"""A snapshot is one record that holds a whole composition, and a picture that keeps to its rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.cli.encode import composition_records
from broker.cli.output import Style
from broker.cli.saved import read_saved
from broker.cli.snapshots import snapshot_line, snapshot_lines, snapshot_record
from broker.client import Snapshot
from tests.cli.documents import composed, records_of, write


def test_its_records_are_those_of_its_composition_and_may_be_explained(tmp_path: Path):
    composition, _ = composed()
    record = json.loads(json.dumps(snapshot_record(Snapshot(2, ("a", "b"), composition))))
    assert (record["event"], record["number"], record["collecting"]) == ("snapshot", 2, ["a", "b"])
    assert record["records"] == json.loads(json.dumps(list(composition_records(composition))))
    assert read_saved(write(tmp_path / "one.jsonl", record["records"])).composition == composition


def test_a_document_that_holds_snapshots_is_read_for_what_it_ends_with(tmp_path: Path):
    composition, request = composed()
    accepted, *rest = records_of(composition, request)
    snapshot = snapshot_record(Snapshot(1, ("late",), composed(max_tokens=300)[0]))
    saved = read_saved(write(tmp_path / "with.jsonl", [accepted, snapshot, *rest]))
    assert saved == read_saved(write(tmp_path / "without.jsonl", [accepted, *rest]))


@pytest.mark.parametrize("rows", [3, 4, 7, 100])
def test_a_picture_keeps_to_its_rows_and_leaves_out_its_middle(compose_by_hand, rows: int):
    snapshot = Snapshot(1, ("late",), compose_by_hand())
    lines = snapshot_lines(snapshot, Style(), rows)
    whole = snapshot_lines(snapshot, Style(), 1000)
    assert len(lines) == min(rows, len(whole))
    assert lines[0] == whole[0] == snapshot_line(snapshot)
    assert lines[-1] == whole[-1]
