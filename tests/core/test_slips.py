"""What is wrong with the texts of a frame by itself, told as they are."""

from __future__ import annotations

import pytest

from broker.core.frames import Frame, Provenance, Relation
from broker.core.slips import content_bytes, malformed_text


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"content": "\ud800", "id": "\ud800"}, "content"),
        ({"title": "é\udfff"}, "title"),
        ({"kind": "\ud800", "uri": "\ud800"}, "kind"),
        ({"recorded_at": "\ud800"}, "recorded_at"),
        # Next to each other in the frame, and still two halves of which neither is a character.
        ({"valid_from": "\ud83d", "valid_to": "\ude00"}, "valid_from"),
        ({"provenance": (Provenance("file", by="\ud83d"), Provenance("\ude00"))}, "provenance"),
        ({"relations": (Relation("calls", "\ud800"),)}, "relations"),
    ],
)
def test_the_first_field_that_is_no_utf_8_is_named(fields: dict[str, object], field: str):
    frame = Frame(**{"id": "i", "title": "t", "content": "c", **fields})
    assert content_bytes(frame) is None
    assert malformed_text(frame) == field


@pytest.mark.parametrize("content", ["ascii", "né", "漢字 \U0001f600", ""])
@pytest.mark.parametrize("title", ["ascii", "né", "漢字"])
def test_whatever_can_be_encoded_is(content: str, title: str):
    frame = Frame("i", title, content, provenance=(Provenance("file", "é"),), relations=(Relation("漢"),))
    assert content_bytes(frame) == content.encode()
