"""A file of frames is read whole or not at all: a bad line is named by its number and by what is wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.encode import frame_record
from broker.cli.errors import Failure
from broker.cli.frames_file import read_frames, read_order
from broker.core.frames import Frame, FrameRef, Provenance, Relation

GOOD = {"id": "a", "title": "A", "content": "text", "score": 0.5}


def _file(tmp_path, *lines):
    path = tmp_path / "frames.jsonl"
    path.write_bytes(b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines))
    return path


def test_good_lines_are_frames_in_order_and_blank_ones_are_skipped(tmp_path):
    whole = {
        **GOOD,
        "id": "b",
        "kind": "doc",
        "provenance": [{"type": "file", "uri": "file:///a", "range": "L1-2"}],
        "relations": [{"rel": "calls", "target_uri": "x"}],
        "token_cost": 1,
    }
    assert read_frames(_file(tmp_path, GOOD, b"", b"  ", whole)) == [
        Frame("a", "A", "text", 0.5),
        Frame(
            "b",
            "A",
            "text",
            0.5,
            kind="doc",
            provenance=(Provenance("file", "file:///a", "L1-2"),),
            relations=(Relation("calls", "x"),),
            token_cost=1,
        ),
    ]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(st.builds(Frame, id=TEXT, title=TEXT, content=TEXT, uri=TEXT, citation_label=TEXT))
def test_frames_that_this_tool_writes_are_read_back(tmp_path_factory, frame):
    path = _file(tmp_path_factory.mktemp("frames"), frame_record(frame))
    assert read_frames(path) == [frame]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "not JSON"),
        (b"\xff", "byte 1 is not UTF-8"),
        (b"[1]", "one JSON object"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"id": "a", "score": 1' + b"0" * 5000 + b"}", "a number of too many digits"),
        (b'{"id": "a", "id": "b"}', "'id' stands twice"),
        (b'{"id": "a", "score": NaN}', "NaN is not a JSON number"),
        ({"title": "A", "content": "c"}, "'id' is missing or empty"),
        ({**GOOD, "title": ""}, "'title' is missing or empty"),
        ({"id": "a", "title": "A"}, "'content' is missing or empty"),
        ({**GOOD, "titel": "x"}, "'titel' is not a field; did you mean 'title'?"),
        ({**GOOD, "title": 5}, "'title' must be a text, not the number 5"),
        ({**GOOD, "content": "\ud800"}, "half of a surrogate pair"),
        ({**GOOD, "score": "high"}, "'score' must be a number, not a text"),
        ({**GOOD, "score": True}, "'score' must be a number, not true or false"),
        ({**GOOD, "score": 10**400}, "too large"),
        ({**GOOD, "token_cost": -1}, "'token_cost' must be a whole number"),
        ({**GOOD, "provenance": {}}, "'provenance' must be a list, not an object"),
        ({**GOOD, "provenance": ["x"]}, "provenance[0] is not an object"),
        ({**GOOD, "provenance": [{"uri": "x"}]}, "'provenance[0].type' is missing or empty"),
        ({**GOOD, "relations": [{"rel": "a", "target": "x"}]}, "'relations[0].target' is not a field"),
    ],
)
def test_a_bad_line_is_named_by_its_number_and_what_is_wrong(tmp_path, line, says):
    path = _file(tmp_path, GOOD, b"", line)
    with pytest.raises(Failure) as caught:
        read_frames(path)
    assert f"{path}, line 3: " in caught.value.message
    assert says in caught.value.message
    assert (caught.value.exit_code, caught.value.reason) == (1, "BAD_LINE")


def test_a_missing_file_is_the_systems_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_frames(tmp_path / "none")


def test_audit_records_serve_as_an_order(tmp_path):
    path = _file(tmp_path, {"event": "audit", "provider": "files", "frame_id": "a", "rank": 3})
    assert read_order(path) == [FrameRef("files", "a")]


@pytest.mark.parametrize(("line", "says"), [({"provider": "files"}, "'frame_id'"), ({"frame_id": 1}, "'provider'")])
def test_an_order_needs_both_names(tmp_path, line, says):
    with pytest.raises(Failure, match=says):
        read_order(_file(tmp_path, line))
