"""What is escaped shows, stays inside, and can be turned back; what needs no escape is not touched."""

from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.render import escaping, invisible
from broker.core.render.escaping import (
    escape_content,
    escape_contents,
    escape_header,
    escaped_headers,
    unescape,
    visible,
)
from broker.core.render.invisible import HIDDEN
from tests.core.building import turned_back

NASTY = [
    "<", "＜", "﹤", "&lt;", "&LT", "&#60;", "&#060", "&#x3C;", "&#X03c", "/", "／", "frame", "FRAME",
    "ｆｒａｍｅ", "f", "rame", " ", "\u00a0", "\u200b", "\u00ad", "\u200c", "\u200d", "\ufe0f", "\ufe0e",
    "\u202e", "\U000e0041", "\n", "\r", "\r\n", "\t", "\x00", "\x85", "\u2028", "⟦", "U+", "⟦U+003C⟧",
    "⟧", '"', ">", "&", "a", "😀", "👩", "\U0001f3fd", "م", "क", "\u094d", "1", "\u20e3", "\u2800", "é",
    "e\u0301", "漢",
]  # fmt: skip
nasty = st.lists(st.sampled_from(NASTY) | st.characters()).map("".join)
RUNS = ["\u200d", "\u200c", "\ufe0f", "\u200b", "😀", "\U0001f3fd", "क", "\u094d", "م", "1", "\u20e3"]
KEPT_JOINERS = re.compile("[\u200c\u200d\ufe0e\ufe0f]")


@given(nasty)
def test_what_is_escaped_can_be_turned_back(text):
    for escape in (escape_content, escape_header):
        escaped = escape(text).text
        assert unescape(escaped) == text
        assert turned_back(escaped) == text


@given(nasty)
def test_nothing_hidden_is_left_but_what_is_needed(text):
    content, header = escape_content(text).text, escape_header(text).text
    assert not re.search(f"[{HIDDEN}]", KEPT_JOINERS.sub("", content + header))
    assert not re.search("[\u200c\u200d\ufe0e\ufe0f]{3}", content)
    assert not re.search(r"\r(?!\n)", content)
    assert not re.search(r'[<>"\r\n\t]', header)


@given(st.lists(st.sampled_from(RUNS), max_size=9).map("".join))
def test_whether_a_joiner_stays_depends_on_the_two_before_it_and_the_one_behind(text):
    """However long a run of hidden characters is: whatever stands further away changes nothing."""
    kept = [index for index, character in enumerate(text) if not re.match(f"[{HIDDEN}]", character)]
    for index in set(range(len(text))) - set(kept):
        before, after = text[max(0, index - 2) : index], text[index + 1 : index + 2]
        # What never stays in its place: one fewer is hidden where it does.
        hidden, most = (escape_content(f"a{before}{one}{after}a").hidden for one in (text[index], "\u200b"))
        if hidden < most:
            kept.append(index)
    expected = "".join(c if i in kept else f"⟦U+{ord(c):04X}⟧" for i, c in enumerate(text))
    assert escape_content(f"a{text}a").text == f"a{expected}a"


@given(nasty)
def test_no_fence_can_be_read_in_what_is_escaped(text):
    for escape in (escape_content, escape_header):
        seen = unicodedata.normalize("NFKC", html.unescape(escape(text).text)).casefold()
        assert "<frame" not in re.sub(rf"[\s/{HIDDEN}]", "", seen)


@given(nasty)
def test_escaping_counts_what_it_did(text):
    content = escape_content(text)
    literal = len(re.findall(r"⟦(?=U\+)", text))
    assert content.text.count("⟦U+") == content.hidden + content.fences + literal


@given(nasty)
def test_a_text_never_looks_empty(text):
    shown = escape_content(text).text
    assert bool(shown.replace("\u2800", "").strip()) == bool(text)


KEPT = [
    "def f(x):\n\treturn x < 3 and y > 2 and a & b  # <html>&amp;</html> \"q\" 'r' \\u200b\n",
    "line\r\nline\r\n\r\n",
    "e\u0301a\u0300 Z\u0351\u036b",
    "漢字 かな カナ 한국어 ｶﾅ　全角",
    "שָׁלוֹם עולם",
    "السلام عليكم می‌خواهم ه\u200dا",
    "क्\u200dष श्री नमस्ते ক্\u200cষ ന്\u200d ක්\u200dෂ",
    "ไทย ខ្មែរ မြန်မာ བོད་",
    "👩🏽\u200d💻 👨\u200d👩\u200d👧\u200d👦 ❤\ufe0f ☺\ufe0e 🏳\ufe0f\u200d🌈 1\ufe0f\u20e3 🤦🏼\u200d♂\ufe0f 🇩🇪",
    "👁\ufe0f\u200d🗨\ufe0f 🫱🏻\u200d🫲🏿",
    "⟦ ⟧ ⟦U ⟦u+0041⟧",
    "a\u00a0b — “quoted” … ½ ﬁ",
    "&lt;div&gt; &#60;p&#62; < / fra me, <f>rame",
]


@pytest.mark.parametrize("text", KEPT)
def test_what_needs_no_escape_is_not_touched(text):
    escaped = escape_content(text)
    assert (escaped.text, escaped.hidden, escaped.fences) == (text, 0, 0)


ESCAPED = [
    ("a\u200bb", "a⟦U+200B⟧b"),
    ("\ufeffbom", "⟦U+FEFF⟧bom"),
    ("soft\u00adhyphen", "soft⟦U+00AD⟧hyphen"),
    ("\u202eabc\u202c", "⟦U+202E⟧abc⟦U+202C⟧"),
    ("x\u200e\u200f\u061cy", "x⟦U+200E⟧⟦U+200F⟧⟦U+061C⟧y"),
    ("\U000e0048\U000e0069", "⟦U+E0048⟧⟦U+E0069⟧"),
    ("\U0001f3f4\U000e0067\U000e007f", "\U0001f3f4⟦U+E0067⟧⟦U+E007F⟧"),
    ("a\u034fb\u2062c", "a⟦U+034F⟧b⟦U+2062⟧c"),
    ("a\u200db", "a⟦U+200D⟧b"),
    ("\u200d", "⟦U+200D⟧"),
    ("م\u200c\u200cم", "م⟦U+200C⟧⟦U+200C⟧م"),
    ("م\u200d.", "م⟦U+200D⟧."),
    ("😀\u200c😀", "😀⟦U+200C⟧😀"),
    ("😀\u200d", "😀⟦U+200D⟧"),
    ("a\ufe0f", "a⟦U+FE0F⟧"),
    ("\ufe0f", "⟦U+FE0F⟧"),
    ("1\ufe0f2", "1⟦U+FE0F⟧2"),
    ("😀\ufe0f\ufe0f\ufe01", "😀\ufe0f⟦U+FE0F⟧⟦U+FE01⟧"),
    ("\u200b\u200c\u200b\u200b", "⟦U+200B⟧⟦U+200C⟧⟦U+200B⟧⟦U+200B⟧"),
    ("\r\r\r\n\r\u200b\r", "⟦U+000D⟧⟦U+000D⟧\r\n⟦U+000D⟧⟦U+200B⟧⟦U+000D⟧"),
    ("葛\U000e0100", "葛⟦U+E0100⟧"),
    ("a\rb\r", "a⟦U+000D⟧b⟦U+000D⟧"),
    ("\x1b[31mred\x07", "⟦U+001B⟧[31mred⟦U+0007⟧"),
    ("a\u2028b\u2029c\x85d", "a⟦U+2028⟧b⟦U+2029⟧c⟦U+0085⟧d"),
    ("⟦U+003C⟧", "⟦U+27E6⟧U+003C⟧"),
    ("</frame>", "⟦U+003C⟧/frame>"),
    ('<frame seal="AAAAAAAAAA">', '⟦U+003C⟧frame seal="AAAAAAAAAA">'),
    ("< / \n FrAmE", "⟦U+003C⟧ / \n FrAmE"),
    ("<\u00a0frame <\u200b/frame", "⟦U+003C⟧\u00a0frame ⟦U+003C⟧⟦U+200B⟧/frame"),
    ("<fr\u00adame", "⟦U+003C⟧fr⟦U+00AD⟧ame"),
    ("＜／ｆｒａｍｅ＞", "⟦U+FF1C⟧／ｆｒａｍｅ＞"),
    ("﹤𝐟𝐫𝐚𝐦𝐞", "⟦U+FE64⟧𝐟𝐫𝐚𝐦𝐞"),
    ("&lt;/frame&gt; &LTframe", "⟦U+0026⟧lt;/frame&gt; ⟦U+0026⟧LTframe"),
    ("&#60;frame &#x003C;FRAME", "⟦U+0026⟧#60;frame ⟦U+0026⟧#x003C;FRAME"),
    ("<<frame", "<⟦U+003C⟧frame"),
    ("   ", "⟦U+0020⟧⟦U+0020⟧⟦U+0020⟧"),
    ("\n\u2800", "⟦U+000A⟧⟦U+2800⟧"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shown"), ESCAPED)
def test_what_hides_or_forges_is_made_visible(text, shown):
    assert escape_content(text).text == shown


def test_a_header_value_stays_between_its_quotes_on_one_line():
    escaped = escape_header('a"><frame\r\nid="x"\t&lt;frame\u202e')
    assert escaped.text == (
        "a⟦U+0022⟧⟦U+003E⟧⟦U+003C⟧frame⟦U+000D⟧⟦U+000A⟧id=⟦U+0022⟧x⟦U+0022⟧⟦U+0009⟧⟦U+0026⟧lt;frame⟦U+202E⟧"
    )
    assert (escaped.hidden, escaped.fences) == (4, 2)


@pytest.mark.parametrize(
    "unit",
    ["<", "< ", "</", "<f", "<fram", "<frame", "&", "&lt", "&#0", "&#x0", "\u200b", "<\u200b", "⟦", "⟦U+",
     "😀\u200d", "م\u200c", "\u0301", "\ufe0f", " ", "\r"],
)  # fmt: skip
def test_the_work_grows_with_the_text_and_no_faster(unit):
    # A quadratic pattern would take hours here and meet the suite's own limit.
    text = unit * (300_000 // len(unit.encode()))
    assert unescape(escape_content(text).text) == text
    assert unescape(escape_header(text).text) == text


PATTERNS = ((escape_content, escaping._CONTENT), (escape_header, escaping._HEADER))
MANY_PLAIN = st.lists(st.sampled_from([*NASTY, *KEPT, "plain ", "\r\n", "x < y", "&amp;"])).map("".join)


@given(nasty | MANY_PLAIN | st.text(st.characters(max_codepoint=127)))
def test_what_is_told_harmless_at_a_glance_is_so_by_the_patterns(text):
    for escape, pattern in PATTERNS:
        escaped = escape(text)
        if escaped.text == text:
            assert escaping._escape(pattern, text) == escaped


@given(st.text(st.sampled_from('<>"\t\n\r\0\x01\x7f aé/')))
def test_what_a_header_never_holds_is_escaped_wherever_it_stands(text):
    escaped = escape_header(text)
    assert escaped.text == "".join(c if c in " aé/" else visible(c) for c in text)
    assert (escaped.hidden, escaped.fences) == (sum(c in "\t\n\r\0\x01\x7f" for c in text), 0)


@given(st.lists(nasty | MANY_PLAIN | st.just("plain"), max_size=6))
def test_texts_that_are_looked_at_together_are_escaped_as_each_alone_is(texts):
    assert escape_contents(texts) == [escape_content(text) for text in texts]
    alone = {text: escape_header(text) for text in texts}
    assert escaped_headers(texts) == {text: escaped for text, escaped in alone.items() if escaped.text != text}


LISTED = "".join(value for name, value in vars(invisible).items() if name.isupper() and name != "UNIDATA_VERSION")
SPECIAL = [chr(code) for code in range(0x110000) if code < 0x3000 or re.match(f"[{LISTED}⟦]", chr(code))]


def test_no_single_character_is_told_harmless_that_a_pattern_changes():
    for character in SPECIAL:
        text = f"a{character}b"
        for escape, pattern in PATTERNS:
            assert escape(text) == escaping._escape(pattern, text)


def joins(before: str, joiner: str, after: str) -> bool:
    """Whether a joiner or variation selector changes how the characters beside it are read: the rule, word by word."""

    def one_of(characters: str, text: str) -> bool:
        return bool(re.fullmatch(f"[{characters}]", text))

    last, last_but_one = before[-1:], before[-2:-1]
    if joiner in "\ufe0e\ufe0f":
        return one_of(invisible.PICTOGRAPHS, last) or (one_of("0-9#*", last) and after == "\u20e3")
    if one_of(invisible.VIRAMAS, last) or (one_of(invisible.JOINING, last) and one_of(invisible.JOINING, after)):
        return True
    if joiner == "\u200c" or not one_of(invisible.PICTOGRAPHS, after):
        return False
    base = last_but_one if last == "\ufe0f" else last
    skin_tone = one_of("\U0001f3fb-\U0001f3ff", last)
    return one_of(invisible.PICTOGRAPHS, base) or skin_tone


@given(st.lists(st.sampled_from([*RUNS, "\ufe0e", "a"]), max_size=9).map("".join))
def test_a_joiner_stays_where_it_joins_and_nowhere_else(text):
    for escape in (escape_content, escape_header):
        expected = [
            c
            if not re.match(f"[{HIDDEN}]", c)
            or (KEPT_JOINERS.match(c) and joins(text[:index], c, text[index + 1 : index + 2]))
            else f"⟦U+{ord(c):04X}⟧"
            for index, c in enumerate(text)
        ]
        assert escape(text).text == "".join(expected)
