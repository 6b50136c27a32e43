"""A process that must not outlive the one that started it: it ends when its standard input closes.

The kernel closes the pipe however the parent went, SIGKILL included, so that this holds where no signal was sent.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

_GRACE = 15.0
"""Seconds for an orderly end, a little more than the broker's own grace."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def exit_with_parent_option(command: _Command) -> _Command:
    """``--exit-with-parent``, hidden: ``demo`` starts its children with it."""
    option = click.option(
        "--exit-with-parent",
        is_flag=True,
        hidden=True,
        expose_value=False,
        callback=lambda _context, _parameter, value: follow_parent() if value else None,
        help="Stop when standard input closes.",
    )
    return option(command)


def follow_parent() -> None:
    """Watches standard input in a thread: when it closes, this process gets SIGTERM, and is ended if that is slow."""
    threading.Thread(target=_watch, name="parent-watch", daemon=True).start()


def _watch() -> None:
    # os.read takes no lock of sys.stdin, which an interpreter that shuts down would wait for.
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_GRACE)
    os._exit(1)
