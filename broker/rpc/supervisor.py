"""What is told to the process that watches over this one, where systemd started it (``Type=notify``)."""

from __future__ import annotations

import contextlib
import os
import socket
import time

READY = "READY=1"
STOPPING = "STOPPING=1"


def tell(state: str) -> None:
    """Tells a state; where no one listens, nothing happens. Never raises, and never waits."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    # A name that begins with @ is one of no file system.
    address = f"\0{address[1:]}" if address.startswith("@") else address
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.setblocking(False)
        channel.sendto(state.encode(), address)


def reloading() -> str:
    """The state of one that reads its configuration again; :data:`READY` ends it."""
    return f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"
