"""``make bench``: measures loads, prints a JSON line for each and a table of all, and keeps or checks their ratios.

Bounded: a load takes its rounds of a few seconds, and all traffic stays on loopback.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import grpc
from google.protobuf import __version__ as protobuf_version
from uvloop import new_event_loop

from broker import __version__
from tests.bench.history import HISTORY, falls, keep, kept
from tests.bench.loads import LOADS
from tests.bench.reach import table
from tests.bench.rounds import measured
from tests.soaking import machine


def main() -> int:
    """Runs what the command line asks for; 1 where a check fails."""
    asked = _arguments()
    lines = []
    for name in asked.loads:
        with tempfile.TemporaryDirectory(prefix="bench-") as folder, asyncio.Runner(loop_factory=new_event_loop) as run:
            line = run.run(measured(LOADS[name], Path(folder), rounds=asked.rounds, seconds=asked.seconds))
        lines.append({**line, **_circumstances()})
        print(json.dumps(lines[-1]), flush=True)
    print(table(lines), file=sys.stderr)
    if asked.keep:
        keep(HISTORY, lines)
    if asked.check:
        before = kept(HISTORY)
        fallen = falls(before, lines)
        new = [line["load"] for line in lines if line["load"] not in before]
        told = [*fallen, *(f"{load}: was never kept, so that nothing holds it" for load in new)]
        print("\n".join(told) or "no ratio fell", file=sys.stderr)
        return 1 if fallen else 0
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("loads", nargs="*", metavar="LOAD", help=f"of {', '.join(LOADS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="how often both sides are measured (default: 5)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long each time (default: 3)")
    parser.add_argument("--keep", action="store_true", help="add the lines to history.jsonl: once a release")
    parser.add_argument("--check", action="store_true", help="fail where a ratio fell by a tenth since the last kept")
    asked = parser.parse_args()
    if unknown := set(asked.loads) - set(LOADS):
        parser.error(f"no such load: {', '.join(sorted(unknown))}")
    asked.loads = asked.loads or [*LOADS]
    return asked


def _circumstances() -> dict[str, object]:
    return {
        "version": __version__,
        "grpcio": grpc.__version__,
        "protobuf": protobuf_version,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
    }


if __name__ == "__main__":
    sys.exit(main())
