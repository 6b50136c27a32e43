"""Logs are JSON where no person looks, carry what libraries say too, and never show local variables."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.telemetry.logs import configure


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.text(min_size=1).filter(str.isidentifier), st.text() | st.integers() | st.lists(st.booleans())),
    st.sampled_from(["debug", "info", "warning", "error"]),
)
def test_a_line_is_what_structlog_s_own_way_would_make_of_it(said: dict[str, object], level: str) -> None:
    said = {key: value for key, value in said.items() if key not in ("self", "event", "exc_info", "stack_info")}
    out, records = io.StringIO(), []
    configure("debug", "json", out)
    (handler,) = logging.getLogger().handlers
    handler.addFilter(lambda record: records.append(record) or True)
    getattr(structlog.get_logger("broker.x"), level)("an event", **said)
    (record,) = records
    record._logger, record._name = None, level
    theirs = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer()]
    )
    assert out.getvalue() == theirs.format(record) + "\n"


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
