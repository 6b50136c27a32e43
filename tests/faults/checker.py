"""Checks histories by what their actors wrote down: every frame offered is placed or left out, exactly once.

A program of its own, which reads recordings (see :mod:`tests.faults.recording`) and nothing of the broker::

    python checker.py FOLDER [--history NAME]

It prints one JSON object of counts and problems, and exits 1 where there is a problem. What must hold:

* a request has one answer at most, and an answer has one audit;
* a lane's rows are as many as it says were offered, and rows, reasons and placed frames agree one to one;
* a lane's rows are what one asking of that provider sent: all of it where the lane is COMPLETE, whole batches from its
  start where it was cut short, frames from its start where it was REFUSED, nothing where it is anything else;
* what was sent and has no row has an excuse: the provider was told, its session is over, another instance was asked, or
  the request had no answer;
* no frame is in two lanes, and none is placed that nobody offered.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]
Frames = list[tuple[str, str]]

WHOLE = {"COMPLETE", "EMPTY"}
CUT = {"PARTIAL", "LOST", "FAILED"}


class Asking:
    """What one session sent for one question."""

    def __init__(self, line: Line) -> None:
        self.session = line["session"]
        self.deaf = line.get("deaf", False)
        self.lane = (line["request"], line["provider"])
        self.batches: list[Frames] = []
        self.late: Frames = []
        self.ended: bool | None = None
        self.told: list[str] = []

    @property
    def frames(self) -> Frames:
        return [frame for batch in self.batches for frame in batch]


class History:
    """One history's lines, sorted out."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.askings: dict[str, Asking] = {}
        self.lanes: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.gone: set[str] = set()
        self.pushes: dict[tuple[str, str], list[Frames]] = defaultdict(list)
        self.asks: dict[str, Line] = {}
        self.answers: dict[str, list[Line]] = defaultdict(list)
        self.audits: dict[str, list[Line]] = defaultdict(list)
        self.left: set[str] = set()
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        for line in sorted(lines, key=lambda line: line["at"]):
            getattr(self, "_" + line["kind"])(line)

    def _asked(self, line: Line) -> None:
        if line["query"] in self.askings:
            self.problem(f"query {line['query']} was asked twice")
        asking = self.askings[line["query"]] = Asking(line)
        self.lanes[asking.lane].append(line["query"])

    def _sent(self, line: Line) -> None:
        asking = self.askings.get(line["query"])
        if asking is None:
            return
        frames = [(frame[0], frame[1]) for frame in line["frames"]]
        if asking.ended is None:
            asking.batches.append(frames)
        else:
            asking.late += frames

    def _ended(self, line: Line) -> None:
        if line["query"] in self.askings:
            self.askings[line["query"]].ended = not line["failed"]

    def _told(self, line: Line) -> None:
        if line["query"] in self.askings:
            self.askings[line["query"]].told.append(line["what"])

    def _gone(self, line: Line) -> None:
        self.gone.add(line["session"])

    def _pushed(self, line: Line) -> None:
        if line["taken"]:
            frames = [(frame[0], frame[1]) for frame in line["frames"]]
            self.pushes[line["request"], line["provider"]].append(frames)

    def _asks(self, line: Line) -> None:
        self.asks[line["request"]] = line

    def _answered(self, line: Line) -> None:
        self.answers[line["request"]].append(line)

    def _left(self, line: Line) -> None:
        self.left.add(line["request"])

    def _audit(self, line: Line) -> None:
        self.audits[line["request"]].append(line)

    def problem(self, text: str) -> None:
        self.problems.append(text)

    def check(self) -> None:
        """Finds what is wrong."""
        used: set[str] = set()
        seen: dict[tuple[str, str], tuple[str, str]] = {}
        for request, asked in self.asks.items():
            self.counts["requests"] += 1
            answers, audits = self.answers[request], self.audits[request]
            if len(answers) + (request in self.left) != 1:
                self.problem(f"request {request} has {len(answers)} answers, left={request in self.left}")
            ok = [answer for answer in answers if answer["code"] == "OK"]
            if len(ok) != len(audits):
                self.problem(f"request {request} has {len(ok)} good answers and {len(audits)} audits")
            self.counts.update(f"code {answer['code']}" for answer in answers)
            if not ok or not audits:
                continue
            self._check_answer(request, ok[0], audits[0])
            rows: dict[str, Frames] = defaultdict(list)
            for provider, frame, digest, _, _ in audits[0]["rows"]:
                rows[provider].append((frame, digest))
            for provider, end, offered, _ in audits[0]["lanes"]:
                self.counts[f"lane {end}"] += 1
                self.counts["offered"] += len(rows[provider])
                if len(rows[provider]) != offered:
                    self.problem(f"{request} {provider}: {offered} offered and {len(rows[provider])} rows")
                for frame, _ in rows[provider]:
                    if frame and seen.setdefault((provider, frame), (request, provider)) != (request, provider):
                        self.problem(f"frame {frame} of {provider} is in two requests")
                inline = asked["inline"].get(provider)
                pushes = self.pushes.get((request, provider))
                if inline is not None:
                    self._same(request, provider, rows[provider], [(frame[0], frame[1]) for frame in inline])
                elif pushes is not None and rows[provider]:
                    if not any(_is(rows[provider], frames, end) for frames in pushes):
                        self.problem(f"{request} {provider}: the rows are no push")
                else:
                    used |= set(self._check_lane(request, provider, end, rows[provider]))
        for query, asking in self.askings.items():
            self._check_excuse(query, asking, used)

    def _check_answer(self, request: str, answer: Line, audit: Line) -> None:
        included = Counter((row[0], row[1], row[2]) for row in audit["rows"] if row[3])
        placed = Counter((each[1], each[2], each[3]) for each in answer["placed"])
        self.counts["placed"] += placed.total()
        if included != placed:
            self.problem(f"{request}: the audit says {included - placed} more and {placed - included} less")
        if sorted(each[0] for each in answer["placed"]) != list(range(1, len(answer["placed"]) + 1)):
            self.problem(f"{request}: positions have a hole")
        reasons = Counter("INCLUDED" if row[3] else row[4] for row in audit["rows"])
        if "" in reasons or reasons != Counter({key: count for key, count in audit["reasons"].items() if count}):
            self.problem(f"{request}: reasons {audit['reasons']} and rows {dict(reasons)} differ")
        self.counts.update({f"reason {reason}": count for reason, count in reasons.items()})

    def _same(self, request: str, provider: str, rows: Frames, sent: Frames) -> None:
        if Counter(rows) != Counter(sent):
            self.problem(f"{request} {provider}: {len(sent)} frames were given and other {len(rows)} have rows")

    def _check_lane(self, request: str, provider: str, end: str, rows: Frames) -> Iterator[str]:
        """The askings that the rows may be of."""
        found = [query for query in self.lanes[request, provider] if _matches(self.askings[query], rows, end)]
        if rows and not found:
            self.problem(f"{request} {provider}: {end} with {len(rows)} rows that no asking sent")
        if end in WHOLE and not found:
            self.problem(f"{request} {provider}: {end}, and no asking was ended so")
        yield from found

    def _check_excuse(self, query: str, asking: Asking, used: set[str]) -> None:
        sent = asking.frames
        self.counts["sent"] += len(sent) + len(asking.late)
        if asking.late and not asking.told and asking.session not in self.gone:
            self.problem(f"{len(asking.late)} frames were sent after the end of query {query}, and nobody said a word")
        request, provider = asking.lane
        answered = any(answer["code"] == "OK" for answer in self.answers[request])
        if not (answered and self.audits[request]) or asking.told or asking.session in self.gone or not sent:
            return
        ends = {lane[0]: lane[1] for lane in self.audits[request][0]["lanes"]}
        if asking.deaf and ends.get(provider) in CUT | {"TIMED_OUT"}:
            # What crossed the cut: it was told so, and did not write it down.
            return
        if query not in used:
            self.problem(f"{request} {provider}: {len(sent)} frames of query {query} have no rows and no excuse")
            return
        rows = [row for row in self.audits[request][0]["rows"] if row[0] == provider]
        if len(rows) < len(sent):
            self.problem(f"{request} {provider}: {len(sent) - len(rows)} frames of query {query} are missing")


def _is(rows: Frames, sent: Frames, end: str) -> bool:
    return Counter(rows) == Counter(sent[: len(rows)] if end == "REFUSED" else sent)


def _matches(asking: Asking, rows: Frames, end: str) -> bool:
    if end in WHOLE:
        return asking.ended is True and Counter(rows) == Counter(asking.frames)
    if end == "REFUSED":
        return bool(rows) and Counter(rows) == Counter(asking.frames[: len(rows)])
    if end not in CUT:
        return not rows
    taken: Counter[tuple[str, str]] = Counter()
    wanted = Counter(rows)
    for batch in [[], *asking.batches]:
        taken.update(batch)
        if taken == wanted:
            return True
    return False


def read(folder: Path, only: str | None) -> dict[str, list[Line]]:
    """Lines by history. A line that a kill cut off in its middle is the last of its file, and is passed over."""
    histories: dict[str, list[Line]] = defaultdict(list)
    for path in sorted(folder.glob("*.jsonl")):
        *whole, _ = path.read_bytes().split(b"\n")
        for text in whole:
            line = json.loads(text)
            if only is None or line["history"] == only:
                histories[line["history"]].append(line)
    return histories


def main() -> int:
    """Reads, checks, prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--history", help="check this one alone")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    problems = []
    for name, lines in read(arguments.folder, arguments.history).items():
        history = History(lines)
        history.check()
        counts.update(history.counts)
        counts["histories"] += 1
        problems += [f"history {name}: {problem}" for problem in history.problems]
    sys.stdout.write(json.dumps({"counts": dict(sorted(counts.items())), "problems": problems}) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
