"""The checker finds every way in which a frame can be lost, doubled, invented or left without a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.faults import checker

Lines = list[dict[str, Any]]

BATCHES = [[["f1", "d1"], ["f2", "d2"]], [["f3", "d3"]]]


def lines(end: str = "COMPLETE", taken: int = 3) -> Lines:
    """A history of one request whose lane holds so many of the three frames sent; the last two are left out."""
    rows = [["a", f"f{i}", f"d{i}", i == 1, "" if i == 1 else "OVER_BUDGET"] for i in range(1, taken + 1)]
    reasons = {"INCLUDED": 1, "OVER_BUDGET": taken - 1}
    told: Lines = [
        {"kind": "asks", "request": "r", "seconds": 1, "inline": {}},
        {"kind": "asked", "request": "r", "provider": "a", "session": "s", "query": "q"},
        *({"kind": "sent", "query": "q", "frames": frames} for frames in BATCHES),
        {"kind": "ended", "query": "q", "failed": False},
        {"kind": "answered", "request": "r", "code": "OK", "seconds": 0.1, "placed": [[1, "a", "f1", "d1"]]},
        {"kind": "audit", "request": "r", "lanes": [["a", end, taken, 1]], "rows": rows, "reasons": reasons},
    ]
    if end in ("PARTIAL", "LOST"):
        told.insert(4, {"kind": "told", "query": "q", "what": "Cancel"})
    return told


def problems(told: Lines) -> list[str]:
    history = checker.History([{"at": at, **line} for at, line in enumerate(told)])
    history.check()
    return history.problems


def line(told: Lines, kind: str) -> dict[str, Any]:
    return next(line for line in told if line["kind"] == kind)


@pytest.mark.parametrize(("end", "taken"), [("COMPLETE", 3), ("PARTIAL", 2), ("LOST", 3), ("REFUSED", 1)])
def test_a_good_history_has_no_problem(end: str, taken: int) -> None:
    told = lines(end, taken)
    if end == "REFUSED":
        told.append({"kind": "told", "query": "q", "what": "Rejection"})
    assert problems(told) == []


def row_is_missing(told: Lines) -> None:
    line(told, "audit")["rows"].pop()
    line(told, "audit")["lanes"][0][2] -= 1
    line(told, "audit")["reasons"]["OVER_BUDGET"] -= 1


def row_is_twice(told: Lines) -> None:
    audit = line(told, "audit")
    audit["rows"].append(audit["rows"][-1])
    audit["lanes"][0][2] += 1
    audit["reasons"]["OVER_BUDGET"] += 1


def row_has_other_bytes(told: Lines) -> None:
    line(told, "audit")["rows"][1][2] = "another digest"


def row_has_no_reason(told: Lines) -> None:
    line(told, "audit")["rows"][1][4] = ""


def reasons_do_not_add_up(told: Lines) -> None:
    line(told, "audit")["reasons"]["OVER_BUDGET"] = 5


def lane_says_another_number(told: Lines) -> None:
    line(told, "audit")["lanes"][0][2] = 4


def placed_twice(told: Lines) -> None:
    line(told, "answered")["placed"].append([2, "a", "f1", "d1"])


def placed_and_left_out(told: Lines) -> None:
    line(told, "answered")["placed"] = [[1, "a", "f2", "d2"]]


def placed_with_a_hole(told: Lines) -> None:
    line(told, "answered")["placed"][0][0] = 2


def whole_without_an_end(told: Lines) -> None:
    told.remove(line(told, "ended"))


def answered_twice(told: Lines) -> None:
    told.append(deepcopy(line(told, "answered")))


def never_answered(told: Lines) -> None:
    told.remove(line(told, "answered"))


def without_an_audit(told: Lines) -> None:
    told.remove(line(told, "audit"))


def left_out_without_a_word(told: Lines) -> None:
    line(told, "audit").update(lanes=[["a", "TIMED_OUT", 0, 0]], rows=[], reasons={})
    line(told, "answered")["placed"] = []


def too_late_without_a_word(told: Lines) -> None:
    told.append({"kind": "sent", "query": "q", "frames": [["f9", "d9"]]})


def half_a_batch(told: Lines) -> None:
    told[:] = lines("PARTIAL", 1)


def missing_from_a_cut_lane(told: Lines) -> None:
    told[:] = lines("PARTIAL", 2)
    told.remove(line(told, "told"))


def in_two_requests(told: Lines) -> None:
    again = deepcopy(told)
    for other in again:
        if "request" in other:
            other["request"] = "r2"
        if "query" in other:
            other["query"] = "q2"
    told += again


@pytest.mark.parametrize(
    "spoil",
    [
        row_is_missing,
        row_is_twice,
        row_has_other_bytes,
        row_has_no_reason,
        reasons_do_not_add_up,
        lane_says_another_number,
        placed_twice,
        placed_and_left_out,
        placed_with_a_hole,
        whole_without_an_end,
        answered_twice,
        never_answered,
        without_an_audit,
        left_out_without_a_word,
        too_late_without_a_word,
        half_a_batch,
        missing_from_a_cut_lane,
        in_two_requests,
    ],
)
def test_a_spoilt_history_is_found(spoil: Callable[[Lines], None]) -> None:
    told = lines()
    spoil(told)
    assert problems(told)


def test_the_program_reads_a_folder_and_one_history_of_it(tmp_path: Path) -> None:
    spoilt = lines()
    row_is_missing(spoilt)
    written = [
        json.dumps({"history": name, "at": at, **each})
        for name, told in (("good", lines()), ("bad", spoilt))
        for at, each in enumerate(told)
    ]
    # The last line was cut off by a kill.
    (tmp_path / "a.jsonl").write_text("\n".join([*written, '{"history": "good", "ki']))

    def run(*more: str) -> tuple[int, dict[str, Any]]:
        command = [sys.executable, "-I", checker.__file__, str(tmp_path), *more]
        done = subprocess.run(command, capture_output=True, check=False, text=True)
        return done.returncode, json.loads(done.stdout)

    code, said = run()
    assert code == 1
    assert all(problem.startswith("history bad: ") for problem in said["problems"])
    assert run("--history", "good")[0] == 0
