"""A flood of lines costs a few, and what was left out is counted to the last one (H79)."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from broker.telemetry.logs import configure
from broker.telemetry.repeats import MOST_KINDS, SECONDS, Repeats


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


class Log:
    """A log with a clock moved by hand."""

    def __init__(self, most: int = 3) -> None:
        self.now = 1000.0
        self.out = io.StringIO()
        self.repeats = Repeats(most, lambda: self.now)
        configure("info", "json", self.out, repeats=self.repeats)
        self.say = structlog.get_logger("broker.rpc").info

    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]


def counted(lines: list[dict[str, object]]) -> Counter[object]:
    """How often each reason was logged, by the lines written and by what they say was left out."""
    total: Counter[object] = Counter()
    for line in lines:
        total[line["reason"]] += int(str(line.get("left_out", 1)))
    return total


@given(
    st.lists(st.one_of(st.sampled_from(["MALFORMED", "TOO_LARGE", "flush"]), st.floats(0, 2 * SECONDS)), max_size=200)
)
def test_what_is_written_and_what_is_left_out_are_all_that_was_logged(steps: list[str | float]) -> None:
    log, logged = Log(), Counter[object]()
    for step in steps:
        if isinstance(step, float):
            log.now += step
        elif step == "flush":
            log.repeats.flush()
        else:
            log.say("call refused", reason=step, method="Compose")
            logged[step] += 1
    log.repeats.flush(all_of_them=True)
    assert counted(log.lines()) == logged


def test_a_flood_is_a_few_lines_and_one_that_counts_the_rest() -> None:
    log = Log()
    for _ in range(10_000):
        log.say("call refused", reason="MALFORMED", method="Compose")
    log.say("call refused", reason="TOO_LARGE", method="Compose")
    assert [line["reason"] for line in log.lines()] == ["MALFORMED"] * 3 + ["TOO_LARGE"]
    log.now += SECONDS
    log.repeats.flush()
    summary = log.lines()[-1]
    told = {key: summary[key] for key in ("event", "of", "reason", "method", "left_out", "level", "seconds")}
    assert told == {
        "event": "repeated",
        "of": "call refused",
        "reason": "MALFORMED",
        "method": "Compose",
        "left_out": 9997,
        "level": "info",
        "seconds": SECONDS,
    }
    log.say("call refused", reason="MALFORMED", method="Compose")
    assert log.lines()[-1]["event"] == "call refused"


def test_lines_that_come_slowly_are_all_written() -> None:
    log = Log()
    for _ in range(100):
        log.now += SECONDS / 2
        log.say("call refused", reason="MALFORMED")
        log.repeats.flush()
    assert len(log.lines()) == 100


def test_a_line_of_a_composition_is_never_left_out() -> None:
    log = Log()
    for number in range(100):
        log.say("composition", composition_id=str(number))
    assert len(log.lines()) == 100


def test_what_libraries_repeat_is_counted_too() -> None:
    log = Log()
    for number in range(100):
        logging.getLogger("library").warning("heard %d", number)
    log.repeats.flush(all_of_them=True)
    lines = log.lines()
    assert [line["event"] for line in lines] == ["heard 0", "heard 1", "heard 2", "repeated"]
    assert (lines[-1]["left_out"], lines[-1]["by"], lines[-1]["of"]) == (97, "library", "heard %d")


@pytest.mark.parametrize(("level", "told"), [(25, "info"), (logging.WARNING, "warning"), (60, "critical")])
def test_what_libraries_repeat_at_levels_of_their_own_is_counted_at_the_one_below(level: int, told: str) -> None:
    log = Log()
    for _ in range(4):
        logging.getLogger("library").log(level, "heard")
    log.repeats.flush(all_of_them=True)
    assert (log.lines()[-1]["left_out"], log.lines()[-1]["level"]) == (1, told)


def test_a_library_that_never_repeats_itself_is_bounded() -> None:
    log = Log()
    for number in range(MOST_KINDS + 100):
        logging.getLogger("library").warning(f"heard {number}")
    log.repeats.flush(all_of_them=True)
    lines = log.lines()
    assert len(lines) == MOST_KINDS + 3 + 1
    assert lines[-1]["left_out"] == 97
    assert not log.repeats._counts


async def test_nothing_that_was_left_out_is_lost_at_the_end() -> None:
    log = Log()
    async with log.repeats.told():
        for _ in range(10):
            log.say("call refused", reason="MALFORMED")
    assert counted(log.lines()) == {"MALFORMED": 10}
