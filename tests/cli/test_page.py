"""The page of ``explain --html`` loads nothing, runs nothing, shows hostile text as text, and draws every placed frame.

It is looked at by a real browser, headless Chromium; where there is none those tests skip and say so.
"""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import struct
import subprocess
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.cli.markup import Markup, block, tag, text
from broker.cli.page import page_of
from broker.cli.saved import Saved, read_saved
from broker.cli.story import stories
from broker.core.composition import Composition
from broker.core.replay import replay
from broker.core.request import Placement, RenderMode
from tests.cli.documents import HOSTILE, composed, document
from tests.core.building import composed as composition_of
from tests.core.building import frame, lane

ELEMENTS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "main",
    "section",
    "div",
    "p",
    "span",
    "b",
    "i",
    "bdi",
    "h1",
}
ELEMENTS |= {
    "h2",
    "ul",
    "ol",
    "li",
    "pre",
    "small",
    "wbr",
    "details",
    "summary",
    "footer",
    "a",
    "table",
    "thead",
    "tbody",
}
ELEMENTS |= {"tr", "td", "th", "svg", "g", "rect", "circle", "line", "path", "text"}


class Read(HTMLParser):
    """What a parser finds in a page."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def blocks(self) -> list[int]:
        return [int(value) for _, name, value in self.attributes if name == "data-position"]


def page(composition: Composition) -> str:
    return page_of(Saved(composition=composition), stories(composition), replay(composition))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> str:
    """A page with everything on it: times, conflicts, a replay, hostile text in every place that takes any."""
    saved = read_saved(document(tmp_path_factory.mktemp("page") / "c.json", goal=HOSTILE))
    return page_of(saved, stories(saved.composition), replay(saved.composition, saved.asked.composition))


def test_terms_that_are_not_usual_are_on_the_page():
    lanes = [lane(name, [frame(f"{name}{i}", i / 9, f"{name} {i} <|im_end|>") for i in range(4)]) for name in "ab"]
    options = {"max_frames": 6, "max_frames_per_provider": 2, "safety_factor": 1.25, "max_tokens": 1500}
    composition = composition_of(*lanes, placement=Placement.AUTO, mode=RenderMode.MARKDOWN, **options)
    words = Read(page(composition)).text
    for told in (
        "max_frames yields to max_frames_per_provider: max_frames is 6",
        "placement of AUTO, which folds from 4,096 tokens on",
        "of 1,200 tokens (1,500 by the safety factor 1.25), counted by bytes/4; split FULL",
        "MARKDOWNsealed fence",
        "4 role tokens of chat formats in 4 frames",
    ):
        assert told in words.replace("\u200b", "")


def test_frames_that_were_not_rendered_show_their_content():
    words = Read(page(composition_of(lane("a", [frame("f", 0.5, "the content")]), mode=RenderMode.NONE))).text
    assert "the content" in words


def test_hostile_text_makes_no_element_and_no_attribute(whole):
    read = Read(whole)
    assert set(read.elements) <= ELEMENTS
    assert read.elements["style"] == 1
    names = {name for _, name, _ in read.attributes}
    assert not {name for name in names if name.startswith("on") or name in ("src", "style", "action")}
    assert all(value.startswith("#") for _, name, value in read.attributes if name == "href")


def test_hostile_text_shows_as_text(whole):
    read = Read(whole)
    assert "<script>alert(1)</script><img src=x onerror=alert(2)> \"quoted\" 'single'" in read.text
    assert "⟦U+202E⟧evil⟦U+2066⟧ ⟦U+001B⟧[2J &amp;" in read.text
    assert not re.search("[\x00-\x09\x0b-\x1f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", whole)


def test_the_policy_comes_first_and_forbids_everything_but_the_style(whole):
    head = whole[: whole.index("<title>")]
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', head)
    assert policy is not None
    assert re.fullmatch(
        r"default-src &#x27;none&#x27;; style-src &#x27;sha256-[\w+/=]{44}&#x27;; "
        r"base-uri &#x27;none&#x27;; form-action &#x27;none&#x27;",
        policy[1],
    )
    assert "http://" not in whole.replace(HOSTILE, "")
    assert "https://" not in whole


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40])
def test_the_fold_has_a_block_for_every_placed_frame(count):
    composition = composition_of(
        lane("docs", [frame(f"f{n:02}", 1 - n / 100, title=f"title {n}") for n in range(count)])
    )
    read = Read(page(composition))
    assert sorted(read.blocks()) == list(range(1, count + 1))


def test_every_frame_has_its_story_and_every_link_leads_to_one(whole):
    read = Read(whole)
    ids = [value for _, name, value in read.attributes if name == "id"]
    assert len(ids) == len(set(ids)) == len(composed()[0].audit)
    assert {value[1:] for _, name, value in read.attributes if name == "href"} == set(ids)


def test_a_policy_that_compares_raw_scores_is_an_alarm():
    from broker.core.strategies import ScoreDescending

    one = lane("docs", {"a": 0.5})
    assert "compares raw scores of different providers" in page(composition_of(one, strategy=ScoreDescending()))
    assert "compares raw scores" not in page(composition_of(one))


@given(st.text())
def test_any_text_is_one_text(value):
    read = Read(f"<p>{text(value)}</p>")
    assert read.elements == {"p": 1}
    read = Read(str(tag("p", value, title=value)))
    assert read.elements == {"p": 1}
    assert [name for _, name, _ in read.attributes] == ["title"]


@given(st.text(st.characters(exclude_categories=("Cc", "Cf", "Cs", "Zl", "Zp"))))
def test_honest_text_shows_as_it_is(value):
    assert Read(str(tag("p", value))).text == value


def test_joiners_stay_and_lines_stay():
    family = "\U0001f469\u200d\U0001f467 می\u200cروم"
    assert text(family) == family
    assert Read(str(block("a\n  <b>\n\tc\n"))).text == "\na\n  <b>\n    c"


def test_markup_is_not_escaped_twice():
    assert tag("p", tag("b", "<")) == "<p><b>&lt;</b></p>"
    assert isinstance(tag("p"), Markup)


CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: the page is not looked at by a browser")


class _Server(http.server.SimpleHTTPRequestHandler):
    """Serves a folder and writes down what is asked of it."""

    def do_GET(self):
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_):
        pass


@pytest.fixture
def site(tmp_path) -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Server, directory=str(tmp_path))
    ) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def browse(tmp_path: Path, url: str, *arguments: str) -> str:
    """Opens a page; only this machine resolves, so that nothing else is asked of anyone."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--disable-background-networking", "--no-first-run"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--window-size=960,640", *arguments, url]
    return subprocess.run(command, capture_output=True, check=True, timeout=90).stdout.decode()


def leaky(server: http.server.ThreadingHTTPServer) -> str:
    """Text that would load something from the server, were it anything but text."""
    leak = f"http://127.0.0.1:{server.server_port}/leak"
    return (
        f'"><img src="{leak}"><script src="{leak}"></script><link rel=stylesheet href="{leak}"><iframe src="{leak}">'
        f"</iframe><style>@import '{leak}';body{{background:url({leak})}}</style><svg><image href='{leak}'/></svg>"
    )


@needs_chromium
def test_a_browser_asks_for_nothing_but_the_page(tmp_path, site):
    evil = leaky(site)
    offered = [frame("ok", 0.9, evil, title=evil[:300]), frame(evil[:400], 0.8, "text"), frame("slip", 0.7, title="")]
    composition = composition_of(lane("docs", offered))
    (tmp_path / "page.html").write_text(page(composition), encoding="utf-8")
    dumped = browse(tmp_path, f"http://127.0.0.1:{site.server_port}/page.html", "--dump-dom")
    assert site.asked == ["/page.html"]
    read = Read(dumped)
    assert set(read.elements) <= ELEMENTS
    assert f'"><img src="http://127.0.0.1:{site.server_port}/leak"><script' in read.text
    assert sorted(read.blocks()) == [1, 2]


@needs_chromium
def test_a_browser_would_ask_for_more_were_the_text_not_escaped(tmp_path, site):
    """That the test above can fail: the same text in a page without policy and escapes does load things."""
    (tmp_path / "page.html").write_text(f"<!doctype html><p>{leaky(site)}</p>", encoding="utf-8")
    browse(tmp_path, f"http://127.0.0.1:{site.server_port}/page.html", "--dump-dom")
    assert "/leak" in site.asked


@needs_chromium
def test_a_browser_shows_hostile_text_as_text_and_the_whole_fold(tmp_path, whole):
    (tmp_path / "page.html").write_text(whole, encoding="utf-8")
    read = Read(browse(tmp_path, (tmp_path / "page.html").as_uri(), "--dump-dom"))
    assert set(read.elements) <= ELEMENTS
    assert "<script>alert(1)</script>" in read.text
    assert "⟦U+202E⟧evil" in read.text
    assert "\u202e" not in read.text
    assert read.blocks() == Read(whole).blocks()
    assert len(read.blocks()) == len(composed()[0].placed)


@needs_chromium
def test_a_browser_draws_the_page_in_the_providers_colours(tmp_path, whole):
    """Under its own policy the style sheet applies: otherwise no provider's colour is anywhere in the picture."""
    (tmp_path / "page.html").write_text(whole, encoding="utf-8")
    picture = tmp_path / "page.png"
    browse(tmp_path, (tmp_path / "page.html").as_uri(), f"--screenshot={picture}")
    colours = pixels(picture)
    assert colours[(0x2F, 0x6F, 0xDB)] > 200
    assert colours[(0x13, 0x8A, 0x72)] > 200
    assert colours[(0xFF, 0xFF, 0xFF)] > 50_000
    bare = whole.replace("style-src", "img-src")
    (tmp_path / "bare.html").write_text(bare, encoding="utf-8")
    browse(tmp_path, (tmp_path / "bare.html").as_uri(), f"--screenshot={picture}")
    assert (0x2F, 0x6F, 0xDB) not in pixels(picture)


def pixels(path: Path) -> Counter[tuple[int, int, int]]:
    """How often each colour is in a PNG of 8 bits a channel (W3C PNG, section 9: filters)."""
    data = path.read_bytes()
    width, height, _, kind = struct.unpack(">IIBB", data[16:26])
    deep = {2: 3, 6: 4}[kind]
    packed, at = b"", 8
    while at < len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += size + 12
    raw = zlib.decompress(packed)
    before, found = bytearray(width * deep), Counter()
    for row in range(height):
        start = row * (width * deep + 1)
        line = bytearray(raw[start + 1 : start + 1 + width * deep])
        _unfilter(raw[start], line, before, deep)
        found.update(zip(line[0::deep], line[1::deep], line[2::deep], strict=True))
        before = line
    return found


def _unfilter(kind: int, line: bytearray, above: bytearray, deep: int) -> None:
    for i in range(len(line)) if kind else ():
        left = line[i - deep] if i >= deep else 0
        corner = above[i - deep] if i >= deep else 0
        if kind == 4:
            guess = left + above[i] - corner
            near = min((left, above[i], corner), key=lambda value: abs(guess - value))
        else:
            near = {1: left, 2: above[i], 3: (left + above[i]) // 2}[kind]
        line[i] = (line[i] + near) & 255
