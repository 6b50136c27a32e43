"""Runs the checker over a folder of recordings."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.faults import checker


async def checked(recordings: Path) -> dict[str, Any]:
    """What the checker says, run as the program that it is: without the broker's code and in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", checker.__file__, str(recordings), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return {**json.loads(out), "exit": process.returncode}


def kept(recordings: Path, said: dict[str, Any]) -> str:
    """What went wrong, and how to look at it again."""
    return f"{said['problems'][:5]}; check again: python {checker.__file__} {recordings} --history NAME"
