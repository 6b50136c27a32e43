"""What ``demo`` shows of its run: a page for people, or records for programs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from broker.cli.compare import comparison_lines, comparison_record, verdict_lines
from broker.cli.encode import composition_records
from broker.cli.left_out import left_out_lines
from broker.cli.output import Style, write_json, write_lines
from broker.cli.prompt_picture import prompt_lines
from broker.cli.show import heading, legend, offer_lines, ranking_lines
from broker.cli.terms import policy_lines
from broker.cli.text import clean
from broker.core.composition import Composition


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one demo does.

    Attributes:
        directory: The folder that the providers answer from.
        question: What is asked.
        max_tokens: The budget of both compositions.
        startup: Seconds that each process gets to be ready in.
        collect: Seconds that each question collects.
    """

    directory: Path
    question: str
    max_tokens: int
    startup: float
    collect: float


class View(Protocol):
    """What a demo tells as it goes."""

    def begin(self, plan: Plan) -> None:
        """Before anything is started."""

    def started(self, name: str, pid: int, address: str) -> None:
        """A process was started; the broker's is ready and has an address."""

    def attached(self, record: dict[str, Any]) -> None:
        """A provider is attached; the record is its own."""

    def skipped(self, name: str, error: dict[str, Any]) -> None:
        """A provider cannot serve this folder; the record is its own."""

    def compare(self, plan: Plan, first: Composition, second: Composition) -> None:
        """Both answers are there."""

    def stopped(self, codes: dict[str, int]) -> None:
        """Every process has ended, with these exit codes."""


class JsonView:
    """One JSON object to a line."""

    def begin(self, plan: Plan) -> None:
        """Tells nothing: ``asked`` does."""

    def started(self, name: str, pid: int, address: str) -> None:
        """``event: started``."""
        write_json({"event": "started", "process": name, "pid": pid, "address": address})

    def attached(self, record: dict[str, Any]) -> None:
        """``event: attached``."""
        write_json({"event": "attached", "provider": record["provider"], "scale": record["scale"]})

    def skipped(self, name: str, error: dict[str, Any]) -> None:
        """``event: skipped``."""
        write_json(
            {"event": "skipped", "provider": name, "reason": error.get("reason"), "message": error.get("message")}
        )

    def compare(self, plan: Plan, first: Composition, second: Composition) -> None:
        """Each composition after an ``event: asked``, then ``event: comparison``."""
        for composition in (first, second):
            strategy = composition.summary.strategy.name
            write_json(
                {"event": "asked", "strategy": strategy, "question": plan.question, "max_tokens": plan.max_tokens}
            )
            for record in composition_records(composition):
                write_json(record)
        write_json(comparison_record(first, second))

    def stopped(self, codes: dict[str, int]) -> None:
        """``event: stopped``."""
        write_json({"event": "stopped", "exit_codes": codes})


class TextView:
    """A page for people."""

    def __init__(self, style: Style) -> None:
        self._style = style

    def begin(self, plan: Plan) -> None:
        """What is going to be asked, of what."""
        style = self._style
        write_lines(
            [
                style.paint("One question, one budget, two ranking policies", bold=True),
                *self._labelled("folder", clean(str(plan.directory))),
                *self._labelled("question", clean(plan.question)),
                *self._labelled("budget", f"{plan.max_tokens:,} tokens for each policy"),
                "",
            ]
        )

    def started(self, name: str, pid: int, address: str) -> None:
        """A line for the broker; providers get theirs when they are attached."""
        if address:
            write_lines([f"  {name:<9} ready on {address}, process {pid}"])

    def attached(self, record: dict[str, Any]) -> None:
        """A line for the provider."""
        write_lines([f"  {record['provider']:<9} attached"])

    def skipped(self, name: str, error: dict[str, Any]) -> None:
        """What the provider said of the folder, and that the demo goes on without it."""
        text = f"skipped, the demo goes on without it: {clean(str(error.get('message')))}"
        write_lines(textwrap.wrap(f"  {name:<9} {text}", self._style.width, subsequent_indent=" " * 12))

    def compare(self, plan: Plan, first: Composition, second: Composition) -> None:  # noqa: ARG002 - told in begin
        """Offers, both compositions, the table side by side and what it says."""
        write_lines(self._page(first, second))

    def stopped(self, codes: dict[str, int]) -> None:
        """That nothing is left running."""
        write_lines(["", f"All {len(codes)} processes have stopped."])

    def _page(self, first: Composition, second: Composition) -> Iterator[str]:
        style = self._style
        yield ""
        yield heading("WHAT EACH PROVIDER OFFERED", f"each on its own scale; {legend(style)}", style)
        yield from offer_lines(first, style, second)
        for composition in (first, second):
            yield from self._composition(composition)
        yield from ("", "", heading("SIDE BY SIDE", "frames and tokens placed in the prompt", style))
        yield from comparison_lines(first, second, style)
        yield ""
        for verdict in verdict_lines(first, second):
            for line in textwrap.wrap(verdict, style.width, initial_indent="  ", subsequent_indent="    "):
                yield line.replace(" STARVES ", style.paint(" STARVES ", "red", bold=True))

    def _composition(self, composition: Composition) -> Iterator[str]:
        style = self._style
        title = f" {composition.summary.strategy.name} "
        yield from ("", "", style.paint(title.center(style.width, style.glyphs.rule), bold=True))
        yield from policy_lines(composition, style)
        yield from ("", heading("RANKING", "all lanes in one order, and why", style))
        yield from ranking_lines(composition, style)
        yield from ("", heading("PROMPT", f"top to bottom, placement {composition.summary.placement}", style))
        yield from prompt_lines(composition, style)
        yield from ("", heading("LEFT OUT", "which frames, and why", style))
        yield from left_out_lines(composition, style, rows=6)

    def _labelled(self, label: str, text: str) -> list[str]:
        return textwrap.wrap(text, self._style.width, initial_indent=f"  {label:<9} ", subsequent_indent=" " * 12)
