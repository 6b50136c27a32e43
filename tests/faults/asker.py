"""An orchestrator as a process: ``python -m tests.faults.asker ADDRESS HOW SECONDS``.

It asks every provider that is attached once, with a deadline of its own 10 s after the end of collecting. On stdout it
says ``{"accepted": true}`` once it was, then one JSON object: how every lane ended, and the numbers at the end of the
placed frames' ids by rank.
"""

from __future__ import annotations

import asyncio
import json
import sys

from broker.client import Accepted, Composition, ContextClient


async def main() -> None:
    """Asks once."""
    address, how, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    async with ContextClient(address) as client:
        events = client.stream(
            "clocks.r", query_text=how, collect_timeout=seconds, timeout=seconds + 10, max_tokens=100_000
        )
        async for event in events:
            if isinstance(event, Accepted):
                sys.stdout.write(json.dumps({"accepted": True}) + "\n")
                sys.stdout.flush()
            elif isinstance(event, Composition):
                ranked = sorted(event.placed, key=lambda placed: placed.rank)
                said = {
                    "lanes": {lane.provider: lane.end.value for lane in event.summary.lanes},
                    "order": [int(placed.frame.id.rpartition("/")[2]) for placed in ranked],
                }
                sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
