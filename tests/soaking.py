"""Long runs: how long they are, and what they measured.

A test marked ``soak`` runs under ``make soak`` alone. ``CONTEXT_BROKER_SOAK_SCALE`` makes all of them longer or shorter
(1: each takes five minutes at most), and ``CONTEXT_BROKER_SOAK_REPORT`` names the file that their figures go to.
"""

from __future__ import annotations

import functools
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

SCALE = float(os.environ.get("CONTEXT_BROKER_SOAK_SCALE", "1"))
"""What every count of a long run is multiplied by."""

SECONDS = 600.0
"""What one long run may take at scale 1 before it counts as hung."""

REPORT = Path(os.environ.get("CONTEXT_BROKER_SOAK_REPORT", Path(__file__).resolve().parents[1] / ".soak.jsonl"))
"""JSON lines, one a promise and run."""


class Soak:
    """What the fixture ``soak`` gives: counts at this run's scale, and a place for figures."""

    def count(self, count: int) -> int:
        """So many at scale 1; at least one."""
        return max(1, round(count * SCALE))

    def record(self, promise: str, **figures: object) -> None:
        """Writes down what was measured.

        Args:
            promise: What it is about, such as ``P4`` or ``parse-back fuzz``.
            figures: What came out, JSON-like; put the unit into the name, as in ``slowest_ms``.
        """
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = json.dumps({"promise": promise, **figures, "scale": SCALE, "at": at, "machine": machine()})
        with REPORT.open("a") as report:
            report.write(line + "\n")


@functools.cache
def machine() -> dict[str, object]:
    """What this run's figures are worth: processors, memory, system and Python."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processors": os.cpu_count(),
        "memory_mb": memory // 2**20,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
