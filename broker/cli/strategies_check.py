"""``context-broker strategies check``: the gate, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from broker.cli.errors import Failure
from broker.cli.options import json_option
from broker.cli.output import write_json, write_lines
from broker.cli.text import clean
from broker.core.strategies import CATALOGUE

if TYPE_CHECKING:
    from broker.gate.subjects import Subject

EPILOG = """\
\b
--json: a record for each
  name, passed, properties {T1: holds, T2: broken, ...},
  counterexamples [{property, says, seed, before, after}]
"""


@click.command("check", epilog=EPILOG)
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@json_option
@click.pass_context
def check(context: click.Context, names: Sequence[str], as_json: bool) -> None:
    """Hold ranking policies, built in or installed, against the gate; exit 1 where it refuses one.

    It takes no broker. A plugin that is named is loaded, whatever the configuration says.
    """
    from broker.gate.report import counterexample_lines, legend_lines, record, verdict_lines
    from broker.gate.run import run_gate

    as_json = as_json or bool(context.parent and context.parent.params.get("as_json"))
    verdicts = [run_gate(subject) for subject in [_subject(name) for name in names]]
    if as_json:
        for verdict in verdicts:
            write_json(record(verdict))
    else:
        write_lines([*verdict_lines(verdicts), "", *legend_lines()])
        for verdict in verdicts:
            for example in verdict.counterexamples:
                write_lines(["", *(clean(line) for line in counterexample_lines(example))])
    refused = [verdict.name for verdict in verdicts if not verdict.passed]
    if refused:
        message = f"the gate refuses {', '.join(refused)}: a broker that allows it does not start"
        raise Failure(message, code="FAILED_PRECONDITION", reason="GATE_REFUSED")


def _subject(name: str) -> Subject:
    from broker.gate.subjects import built_in
    from broker.plugins.loading import STRATEGIES, installed
    from broker.plugins.strategies import load_strategy, subject_of_plugin

    known = [info.name for info in CATALOGUE.values()]
    if name in known:
        return built_in(name)
    plugins = installed(STRATEGIES)
    if name not in plugins:
        there = ", ".join(plugins) or "none"
        raise click.BadParameter(
            f"no strategy is called {name!r}; built in: {', '.join(known)}; installed: {there}", param_hint="NAME"
        )
    loaded, _ = load_strategy(name)
    return subject_of_plugin(loaded, {})
