"""What was measured at releases, a JSON line a load, and whether it still holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

HISTORY = Path(__file__).with_name("history.jsonl")

FALL = 0.10
"""How much worse a ratio may be than the last kept one."""

_HIGHER_IS_BETTER = {"rate": True, "cpu": False, "p50": False}
"""The ratios that are held; p99 is reported alone, since a few requests make it."""

Line = Mapping[str, Any]


def kept(path: Path) -> dict[str, Line]:
    """The last kept line of each load; nothing where there is no file."""
    if not path.exists():
        return {}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["load"]: line for line in lines}


def keep(path: Path, lines: Iterable[Line]) -> None:
    """Adds lines."""
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def falls(before: Mapping[str, Line], lines: Iterable[Line]) -> list[str]:
    """What is more than :data:`FALL` worse than it was, each in one sentence. A load that was never kept is no fall."""
    told = []
    for line in lines:
        old = before.get(line["load"])
        if old is None:
            continue
        for name, higher in _HIGHER_IS_BETTER.items():
            was, now = old["ratios"][name], line["ratios"][name]
            if (now < was * (1 - FALL)) if higher else (now > was / (1 - FALL)):
                told.append(f"{line['load']}: {name} was {was} of the floor's at {old['version']}, and is {now}")
    return told
