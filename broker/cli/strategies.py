"""``context-broker strategies``: the ranking policies, and which of them compare raw scores."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from broker.cli.encode import strategy_record
from broker.cli.options import Access, address_option, json_option
from broker.cli.output import Style, style_of, write_json, write_lines
from broker.cli.strategies_check import check
from broker.cli.terms import parameter_text
from broker.cli.text import clean

if TYPE_CHECKING:
    from broker.client import ListedStrategy

EPILOG = """\
\b
--json: a record for each
  name, version, description, compares_raw_scores, default, allowed,
  default_params {…}     of the default: with what it serves who names none
  parameters [{name, type, default, description}]
"""


@click.group("strategies", epilog=EPILOG, invoke_without_command=True)
@address_option
@json_option
@click.pass_context
def command(context: click.Context, address: str, access: Access, as_json: bool) -> None:
    """List the broker's ranking policies with their parameters; those that compare raw scores are flagged.

    It needs the role "orchestrator" or "operator".
    """
    if context.invoked_subcommand is not None:
        return
    found = asyncio.run(_strategies(address, access))
    if as_json:
        for strategy in found:
            write_json(strategy_record(strategy))
    else:
        write_lines(strategy_lines(found, style_of(sys.stdout)))


command.add_command(check)


def strategy_lines(found: list[ListedStrategy], style: Style) -> Iterator[str]:
    """Every policy with what it compares, its flags and its parameters."""
    for strategy in found:
        marks = [clean(strategy.version)] if strategy.version else []
        marks += [style.paint(_default(strategy), "green")] if strategy.default else []
        marks += [] if strategy.allowed else [style.paint("forbidden by the operator", "red", bold=True)]
        if strategy.compares_raw_scores:
            marks.append(style.paint("!! COMPARES RAW SCORES of different providers !!", "red", bold=True))
        yield f"{style.paint(clean(strategy.name), bold=True)}  {'  '.join(marks)}".rstrip()
        yield from textwrap.wrap(clean(strategy.description), style.width, initial_indent="  ", subsequent_indent="  ")
        for parameter in strategy.parameters:
            default = f", default {clean(parameter.default)}" if parameter.default else ""
            text = f"{clean(parameter.name)}: {clean(parameter.description)} ({clean(parameter.type)}{default})"
            yield from textwrap.wrap(text, style.width, initial_indent="    ", subsequent_indent="      ")


def _default(strategy: ListedStrategy) -> str:
    params = ", ".join(parameter_text(name, value) for name, value in strategy.default_params.items() if value != {})
    return f"default({clean(params)})" if params else "default"


async def _strategies(address: str, access: Access) -> list[ListedStrategy]:
    from broker.client import ContextClient

    async with ContextClient(address, **access) as client:
        return list(await client.strategies())
