"""``context-broker demo``: a broker and three providers on a real folder, one question under two policies."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path

import click

from broker.cli.demo_view import JsonView, Plan, TextView, View
from broker.cli.errors import Failure
from broker.cli.options import json_option
from broker.cli.output import style_of
from broker.cli.processes import ChildFailure, Children
from broker.core.composition import Composition
from broker.core.strategies import RoundRobin, ScoreDescending, Strategy
from broker.providers import PROVIDERS

POLICIES: tuple[Strategy, Strategy] = (ScoreDescending(), RoundRobin())
"""The policy that is judged, and the one that it is held against."""

QUESTION_HERE = "How does the placement fold the best frames to both edges of the prompt?"
"""Suits this project's own sources."""

QUESTION_ANYWHERE = "How are errors handled and reported?"
"""Suits most folders of sources."""

_SOURCES = Path(__file__).resolve().parents[2]


EPILOG = """\
\b
--json records:
  started    process, pid, address                a child of this run
  attached   provider, scale
  skipped    provider, reason, message            it cannot serve this folder
  asked      strategy, question, max_tokens       placed, audit and completed of query follow
  comparison strategies, providers [{provider, offered, placed, starved, squeezed}], starved
  stopped    exit_codes {process: code}
"""


@click.command("demo", epilog=EPILOG)
@click.argument(
    "directory", metavar="[DIR]", default=".", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option("--ask", metavar="Q", help="The question.  [default: one that suits the folder]")
@click.option("--max-tokens", type=click.IntRange(min=1), default=3000, show_default=True, help="The budget.")
@click.option(
    "--startup-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds that each process gets to be ready in.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    help="Seconds to collect.",
)
@json_option
@click.pass_context
def command(
    context: click.Context,
    directory: Path,
    ask: str | None,
    max_tokens: int,
    startup_timeout: float,
    timeout: float,
    as_json: bool,
) -> None:
    """Ask one question about the folder DIR under raw scores and under ranks, and show who is starved.

    Starts the broker and the providers files, symbols and history as processes of their own on free ports, waits for
    them, asks under score_descending and under round_robin with the same budget, and stops everything, also on Ctrl-C.
    """
    plan = Plan(
        directory=directory.resolve(),
        question=ask or _suiting(directory),
        max_tokens=max_tokens,
        startup=startup_timeout,
        collect=timeout,
    )
    view: View = JsonView() if as_json else TextView(style_of(sys.stdout))
    if not asyncio.run(_stoppable(_demo(plan, view))):
        context.exit(128 + signal.SIGTERM)


def _suiting(directory: Path) -> str:
    return QUESTION_HERE if directory.resolve() == _SOURCES else QUESTION_ANYWHERE


async def _stoppable(work: Coroutine[None, None, None]) -> bool:
    """Runs the work until it ends or SIGTERM comes; False: SIGTERM came, and everything was stopped."""
    task = asyncio.ensure_future(work)
    told = asyncio.Event()

    def stop() -> None:
        told.set()
        task.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not told.is_set():
            raise
        return False
    return True


async def _demo(plan: Plan, view: View) -> None:
    view.begin(plan)
    children = Children()
    try:
        address = await _broker(children, plan, view)
        attached = await asyncio.gather(*(_provider(name, address, children, plan, view) for name in PROVIDERS))
        if not any(attached):
            raise Failure(
                f"no provider can serve {plan.directory}; name a folder that holds text, source or a git repository",
                code="FAILED_PRECONDITION",
                reason="NO_PROVIDERS",
            )
        first, second = [await _ask(address, plan, strategy) for strategy in POLICIES]
        if not first.audit and not second.audit:
            raise Failure(
                f"no provider offered a frame for this question from {plan.directory}, so there is nothing to compare; "
                "--ask in words that its files use, or name another folder",
                code="FAILED_PRECONDITION",
                reason="NOTHING_OFFERED",
            )
        view.compare(plan, first, second)
    finally:
        codes = await children.stop()
    view.stopped(codes)


async def _broker(children: Children, plan: Plan, view: View) -> str:
    child = await children.start("broker", ["serve", "--listen", "127.0.0.1:0", "--log-level", "warning", "--json"])
    address = str((await child.event("ready", plan.startup))["address"])
    view.started("broker", child.pid, address)
    return address


async def _provider(name: str, address: str, children: Children, plan: Plan, view: View) -> bool:
    """Starts one provider; False where it cannot serve this folder."""
    child = await children.start(
        name, ["provide", name, str(plan.directory), "--address", address, "--log-level", "warning", "--json"]
    )
    view.started(name, child.pid, "")
    try:
        view.attached(await child.event("attached", plan.startup))
    except ChildFailure as failure:
        if failure.told is None:
            raise
        view.skipped(name, failure.told)
        return False
    return True


async def _ask(address: str, plan: Plan, strategy: Strategy) -> Composition:
    from broker.client import ContextClient

    async with ContextClient(address) as client:
        return await client.compose(
            plan.question,
            max_tokens=plan.max_tokens,
            strategy=strategy,
            collect_timeout=plan.collect,
            # Only the policy that compares them gets to show them: the other one never needs to.
            include_local_scores=isinstance(strategy, ScoreDescending),
        )
