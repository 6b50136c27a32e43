"""A region names whole lines, and what a frame says of it can be checked from the disk by anyone."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.providers.regions import (
    MAX_ID_BYTES,
    content_at,
    cut,
    cut_text,
    file_frame,
    region_of,
    shown_path,
    split_lines,
)

BYTES = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b"\xc3\xa9", b" ", b"\x0c", b"\x85", b"\xe2\x80\xa8"])
).map(b"".join)


def frame_of(root: Path, path: str, data: bytes, first: int, last: int, part: str = ""):
    region = region_of(path, split_lines(data), first, last)
    content = cut(split_lines(data), first, last).decode()
    return file_frame(root, region, content, score=-1.0, kind="doc", title="t", method="m", recorded_at="", part=part)


@given(BYTES)
def test_lines_are_those_between_newlines_and_joined_they_are_the_file(data: bytes):
    lines = split_lines(data)
    assert b"".join(lines) == data
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines[:-1])
    assert len(lines) == data.count(b"\n") + (bool(data) and not data.endswith(b"\n"))


def test_the_digest_is_what_sed_and_sha256sum_say(tmp_path: Path):
    data = "".join(f"line {number} é\r\n" for number in range(1, 60)).encode() + b"no end"
    (tmp_path / "f").write_bytes(data)
    for first, last in ((1, 1), (10, 40), (60, 60), (1, 60)):
        done = subprocess.run(
            f"sed -n {first},{last}p f | sha256sum",
            shell=True,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert region_of("f", split_lines(data), first, last).digest == done.stdout.split()[0]


def test_content_is_given_only_while_it_is_that_of_the_digest():
    lines = split_lines(b"a\nb\nc\n")
    region = region_of("f", lines, 2, 3)
    assert content_at(region, lines) == "b\nc\n"
    assert content_at(region, split_lines(b"new\na\nb\nc\n")) is None
    assert content_at(region, []) is None


@given(st.lists(st.binary(min_size=1, max_size=8).filter(lambda b: b"\0" not in b and b"/" not in b), max_size=6))
def test_paths_are_shown_as_text_and_no_two_alike(names: list[bytes]):
    shown = {name: shown_path(os.fsdecode(name)) for name in names}
    for text in shown.values():
        text.encode()
        assert all(character.isprintable() or character.isspace() for character in text)
        assert not set(text) & set("\n\r\t\u2028\u2029\u202e\u200b")
    assert len(set(shown.values())) == len(shown)


def test_ordinary_paths_are_shown_as_they_are():
    assert shown_path("docs/日本 é (1).md") == "docs/日本 é (1).md"
    assert shown_path("a\nb%\u202e") == "a%0Ab%25%E2%80%AE"


def test_a_frame_is_named_by_path_and_lines(tmp_path: Path):
    frame = frame_of(tmp_path, "docs/read me.md", b"a\nb\nc\n", 2, 3)
    assert frame.id == "docs/read me.md#L2-3"
    assert frame.citation_label == "docs/read me.md L2-3"
    assert frame.uri == frame.provenance[0].uri == f"file://{tmp_path}/docs/read%20me.md"
    assert (frame.valid_from, frame.valid_to) == ("", "")


def test_long_paths_keep_ids_bounded_and_apart(tmp_path: Path):
    long = "/".join(["é" * 100] * 12)
    frames = [
        frame_of(tmp_path, path, b"a\nb\n", first, 2, part)
        for path in (f"x/{long}", f"y/{long}")
        for first in (1, 2)
        for part in ("", "A.b", "A.c")
    ]
    assert len({frame.id for frame in frames}) == len(frames)
    for frame in frames:
        assert len(frame.id.encode()) <= MAX_ID_BYTES
        assert len(frame.citation_label.encode()) <= MAX_ID_BYTES
    assert frames[0].citation_label.endswith("é L1-2")


@given(st.text(max_size=60), st.integers(min_value=4, max_value=40), st.booleans())
def test_cut_text_fits_and_says_that_it_was_cut(text: str, room: int, keep_end: bool):
    cut = cut_text(text, room, keep_end=keep_end)
    assert len(cut.encode()) <= room
    if len(text.encode()) <= room:
        assert cut == text
    elif keep_end:
        assert cut[0] == "…"
        assert text.endswith(cut[1:])
    else:
        assert cut[-1] == "…"
        assert text.startswith(cut[:-1])


@pytest.mark.parametrize("part", ["", "Class.method"])
def test_parts_of_one_region_have_ids_of_their_own(tmp_path: Path, part: str):
    frame = frame_of(tmp_path, "a.py", b"a = 1\n", 1, 1, part)
    assert frame.id == ("a.py#L1-1:Class.method" if part else "a.py#L1-1")
