"""What a person sees on standard error while lanes are collected: a live table where there is rich, else lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from broker.cli.output import style_of
from broker.cli.snapshots import snapshot_line, snapshot_lines
from broker.cli.text import clean, plural

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from broker.client import Snapshot

_COLLECTING = "COLLECTING"

_LEAST_ROWS = 6
"""Lines of a snapshot that are drawn on the lowest of terminals."""


class Progress:
    """Shows nothing; the base of what shows something. A context manager, so that a terminal is always restored."""

    def opened(self, providers: Sequence[str]) -> None:
        """These lanes were opened."""

    def changed(self, provider: str, state: str, frames: int, message: str) -> None:
        """A lane changed: its state's name, frames so far, and why where it did not end well."""

    def snapshot(self, snapshot: Snapshot) -> None:
        """This would be the composition if no other lane ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends the showing."""


class PlainProgress(Progress):
    """One line for each lane that ends, and for each snapshot."""

    def changed(self, provider: str, state: str, frames: int, message: str) -> None:
        """Writes a line when the lane has ended."""
        if state != _COLLECTING:
            told = f": {clean(message)}" if message else ""
            click.echo(f"{clean(provider)} {state}, {plural(frames, 'frame')}{told}", err=True)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Writes its line."""
        click.echo(snapshot_line(snapshot), err=True)


class LiveProgress(Progress):
    """A table, and the last snapshot below it, that change in place and vanish at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._lanes: dict[str, tuple[str, int, str]] = {}
        self._snapshot: Text | None = None
        self._console = Console(stderr=True)
        self._live = Live(console=self._console, transient=True, get_renderable=self._shown, refresh_per_second=8)

    def opened(self, providers: Sequence[str]) -> None:
        """Shows every lane as collecting."""
        self._lanes = dict.fromkeys(providers, (_COLLECTING, 0, ""))

    def changed(self, provider: str, state: str, frames: int, message: str) -> None:
        """Shows the lane's new state."""
        self._lanes[provider] = (state, frames, message)

    def snapshot(self, snapshot: Snapshot) -> None:
        """Draws it in the place of the last one, as far as the terminal has room."""
        from rich.text import Text

        rows = max(_LEAST_ROWS, self._console.height - len(self._lanes) - 2)
        self._snapshot = Text.from_ansi("\n".join(snapshot_lines(snapshot, style_of(sys.stderr), rows)), no_wrap=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Takes the table away."""
        self._live.stop()

    def _shown(self) -> Group:
        from rich.console import Group

        return Group(self._table(), *([self._snapshot] if self._snapshot is not None else []))

    def _table(self) -> Table:
        from rich.spinner import Spinner
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        if not self._lanes:
            table.add_row(Spinner("dots"), Text("asking"))
        for provider, (state, frames, message) in self._lanes.items():
            mark = Spinner("dots") if state == _COLLECTING else Text(" ")
            told = f"{state.lower()}{': ' + clean(message) if message else ''}"
            table.add_row(mark, Text(clean(provider)), Text(plural(frames, "frame")), Text(told))
        return table


def progress(*, quiet: bool) -> Progress:
    """What suits standard error: nothing where it is to be quiet, a live table on a terminal with rich, else lines."""
    if quiet:
        return Progress()
    if sys.stderr.isatty():
        try:
            return LiveProgress()
        except ImportError:
            return PlainProgress()
    return PlainProgress()
