"""Logs are JSON where no person looks, carry what libraries say too, and never show local variables."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
from collections.abc import Iterator
from typing import TextIO

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from broker.telemetry.logs import configure, set_level


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("alembic").setLevel(logging.NOTSET)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_off_a_terminal_each_event_is_one_line_of_json() -> None:
    out = io.StringIO()
    configure("info", "auto", out)
    structlog.get_logger("broker.x").info("an event", number=5, text="a\nb")
    (line,) = out.getvalue().splitlines()
    event = json.loads(line)
    assert (event["event"], event["level"], event["logger"], event["number"]) == ("an event", "info", "broker.x", 5)
    assert event["timestamp"].endswith("Z")


def test_on_a_terminal_a_person_reads_it() -> None:
    out = Terminal()
    configure("info", "auto", out)
    structlog.get_logger("broker.x").info("an event", number=5)
    assert "an event" in out.getvalue()
    with pytest.raises(json.JSONDecodeError):
        json.loads(out.getvalue())


@pytest.mark.parametrize(("level", "shown"), [("info", False), ("debug", True)])
def test_what_the_migrations_library_is_made_of_is_for_those_who_look_for_faults(level: str, shown: bool) -> None:
    out = io.StringIO()
    configure(level, "json", out)
    logging.getLogger("alembic.runtime.migration").info("Context impl SQLiteImpl.")
    assert ("SQLiteImpl" in out.getvalue()) is shown
    logging.getLogger("alembic.runtime.migration").warning("something is wrong")
    assert "something is wrong" in out.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_what_is_below_the_level_is_left_out(form: str) -> None:
    out = io.StringIO()
    configure("warning", form, out)
    structlog.get_logger("broker.x").info("quiet")
    logging.getLogger("grpc").info("quiet")
    assert out.getvalue() == ""
    structlog.get_logger("broker.x").warning("loud")
    assert "loud" in out.getvalue()


def test_what_libraries_log_is_json_too() -> None:
    out = io.StringIO()
    configure("info", "json", out)
    logging.getLogger("grpc._cython").error("from a library: %d", 7)
    event = json.loads(out.getvalue())
    assert (event["event"], event["logger"], event["level"]) == ("from a library: 7", "grpc._cython", "error")


def as_structlog_would(form: str, out: TextIO) -> None:
    """Sets the log up as structlog's manual says it is done together with :mod:`logging`."""
    first = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last = (
        [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
        if form == "json"
        else [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *first, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last], foreign_pre_chain=first
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel("INFO")


def as_the_broker_does(form: str, out: TextIO) -> None:
    configure("info", form, out)


KEYS = st.text("abcdefgh_", min_size=1).filter(lambda key: key not in ("event", "exc_info", "stack_info"))
# A console renderer of the broker's own escapes control characters; see below.
SAID = st.text("ab =\"'{}[]\\%ü", max_size=8)
VALUES = SAID | st.integers() | st.floats() | st.none() | st.lists(st.booleans()) | st.dictionaries(SAID, SAID)
STAMP = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+Z)?")


@given(
    st.sampled_from(["json", "console"]),
    st.sampled_from(["debug", "info", "warning", "error", "exception", "library"]),
    SAID,
    st.dictionaries(KEYS, VALUES),
    st.dictionaries(KEYS, SAID),
)
def test_a_line_is_what_structlog_s_own_way_would_make_of_it(
    form: str, method: str, event: str, said: dict[str, object], bound: dict[str, str]
) -> None:
    lines = []
    for set_up in (as_the_broker_does, as_structlog_would):
        out = io.StringIO()
        set_up(form, out)
        with structlog.contextvars.bound_contextvars(**bound):
            try:
                raise ValueError("it failed")
            except ValueError:
                if method == "library":
                    logging.getLogger("grpc").warning("heard %s", event)
                else:
                    getattr(structlog.get_logger("broker.x"), method)(event, **said)
        lines.append(STAMP.sub("AT", out.getvalue()))
    assert lines[0] == lines[1]
    assert (lines[0] == "") is (method == "debug")


def test_the_level_can_be_changed_while_the_process_runs() -> None:
    out = io.StringIO()
    configure("info", "json", out)
    log = structlog.get_logger("broker.x")
    log.debug("one")
    set_level("debug")
    log.debug("two")
    logging.getLogger("library").debug("three")
    set_level("error")
    log.warning("four")
    logging.getLogger("library").warning("five")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["two", "three"]


class Unwritable(io.StringIO):
    def write(self, _text: str) -> int:
        raise OSError("no space left")


def test_a_log_that_cannot_be_written_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    configure("info", "json", Unwritable())
    structlog.get_logger("broker.x").info("an event")
    logging.getLogger("library").warning("another")
    assert sys.stderr.getvalue().count("OSError: no space left") == 2


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("it cannot be shown")


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_value_that_cannot_be_shown_fails_nothing(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    out = io.StringIO()
    configure("info", form, out)
    structlog.get_logger("broker.x").info("an event", value=Unspeakable())
    structlog.get_logger("broker.x").info("another")
    assert "another" in out.getvalue()


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_traceback_shows_no_local_variable(form: str) -> None:
    out = io.StringIO()
    configure("info", form, out)
    content = "what a frame " + "contains"
    try:
        _ = content.index("missing")
    except ValueError:
        structlog.get_logger("broker.x").exception("failed")
        logging.getLogger("library").exception("failed")
    assert out.getvalue().count("ValueError") >= 2
    assert content not in out.getvalue()


def test_nothing_that_a_peer_says_reaches_a_terminal_as_a_control_character() -> None:
    out = io.StringIO()
    configure("info", "console", out)
    structlog.get_logger("broker.x").info("attached", instance="\x1b]0;me\x07\u202e", text="a\nb")
    logging.getLogger("library").warning("heard %s", "\x9b31m")
    assert all(character.isprintable() or character == "\n" for character in out.getvalue())
    assert r"\x1b]0;me\x07\u202e" in out.getvalue()
    assert r"heard \x9b31m" in out.getvalue()
