"""A provider as a process that a test may kill or stop at any moment.

``python -m tests.faults.actor ADDRESS FILE NAME...`` serves a provider of each name.

It uses the client library as any team would, and writes down what it does (:mod:`tests.faults.recording`) before it
does it. A question's ``query_text`` says how to answer: ``{"frames": 20, "bytes": 4096, "pause": 0.002}``; each frame
is text of its own. The history is what stands before the first dot of the goal.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

from broker.client import Frame, Provider, Query
from broker.errors import BrokerError
from tests.faults.recording import Recording, shown


class Actor:
    """One provider of this process."""

    def __init__(self, name: str, recording: Recording) -> None:
        self.name = name
        self._recording = recording
        self._session = ""
        self._queries = 0

    async def serve(self, address: str) -> None:
        """Serves until this process ends or the broker wants it no more."""
        provider = Provider(self.name, self._answer, instance_id=f"{self.name}-{os.getpid()}")
        try:
            await provider.serve(address, on_attached=self._stands)
        except BrokerError as error:
            sys.stderr.write(f"{self.name} was refused: {error}\n")

    def _stands(self, session: str) -> None:
        self._session = session
        sys.stdout.write(json.dumps({"attached": self.name, "session": session}) + "\n")
        sys.stdout.flush()

    async def _answer(self, query: Query) -> AsyncIterator[Frame]:
        self._queries += 1
        history = query.goal.partition(".")[0]
        name = f"{self.name}/{os.getpid()}/{self._queries}"
        write = partial(self._recording.write, history, query=name)
        write("asked", request=query.goal, provider=self.name, session=self._session, deaf=True)
        how = {"frames": 3, "bytes": 64, "pause": 0.0, **(json.loads(query.query_text) if query.query_text else {})}
        try:
            for number in range(int(how["frames"])):
                content = f"{name} {number} ".ljust(int(how["bytes"]), "x")
                frame = Frame(f"{name}/{number}", "a title", content, 1 / (number + 1))
                # Each as a batch of its own: any batches that the library makes of them begin with these.
                write("sent", frames=shown([frame]))
                yield frame
                await asyncio.sleep(float(how["pause"]))
            write("ended", failed=False)
        except BaseException:
            write("told", what="cancelled")
            raise


async def main() -> None:
    """Serves every name; says on stdout when each has attached."""
    address, file, *names = sys.argv[1:]
    actors = [Actor(name, Recording(Path(file))) for name in names]
    await asyncio.gather(*(actor.serve(address) for actor in actors))


if __name__ == "__main__":
    asyncio.run(main())
