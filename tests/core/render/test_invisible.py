"""The table of characters is the one that its generator writes."""

from __future__ import annotations

import re
import unicodedata

import pytest

from broker.core.render import invisible
from tests.core.render import generate_invisible


@pytest.mark.skipif(
    unicodedata.unidata_version != invisible.UNIDATA_VERSION,
    reason=f"the table was written from Unicode {invisible.UNIDATA_VERSION}, and this Python has another",
)
def test_the_table_is_current():
    assert generate_invisible.TARGET.read_text() == generate_invisible.source()


@pytest.mark.parametrize(
    "characters",
    [
        "\x00\x08\x0b\x1f\x7f\x80\x9f",  # controls
        "\u061c\u200e\u200f\u202a\u202e\u2066\u2069",  # direction marks
        "\u00ad\u034f\u115f\u1160\u17b4\u180e\u200b\u200c\u200d\u2060\u2064\u3164\ufeff\uffa0",  # default ignorables
        "\ufe00\ufe0f\U000e0100\U000e01ef\u180b",  # variation selectors
        "\U000e0001\U000e0020\U000e007f",  # tags
        "\u2028\u2029\ufff9\ufffb\ud800\udfff",  # separators, annotation, lone surrogates
    ],
)
def test_what_does_not_show_is_hidden(characters):
    assert re.fullmatch(f"[{invisible.HIDDEN}]+", characters)


@pytest.mark.parametrize(
    "characters",
    [
        "\t\n\r ", "azAZ09~", "é\u0301\u0300", "漢字かなカナ한글", "שלום", "مرحبا", "नमस्ते", "ไทย", "😀\U0001f3fd❤",
        "\u0600\u06dd\u070f", "\u00a0\u3000", "\ufffd", "ﬁ",
    ],
)  # fmt: skip
def test_what_shows_is_not(characters):
    assert not re.search(f"[{invisible.HIDDEN}]", characters)


@pytest.mark.parametrize("letter", "FRAME")
def test_letters_in_other_clothes_read_as_themselves(letter):
    look_alikes = getattr(invisible, f"LETTER_{letter}")
    full_width, bold = chr(ord(letter) + 0xFEE0), chr(0x1D400 + ord(letter) - ord("A"))
    for character in (letter, letter.lower(), full_width, full_width.lower(), bold):
        assert re.fullmatch(f"[{look_alikes}]", character)
