"""The command line's entry: a group whose commands are imported when they are run, and not before."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from broker.cli.errors import end
from broker.cli.output import prepare

EPILOG = """\
Data goes to standard output, progress and logs to standard error.

\b
Exit codes:
  0    it worked
  1    the operation failed: no broker there, no provider answered, a bad line
  2    wrong usage, configuration or credential: trying again unchanged cannot help
  130  stopped by Ctrl-C

--json writes one JSON object to a line; a failure is then the last one, with
"event": "error", and is told on standard error as well.
"""

COMMANDS: Mapping[str, tuple[str, str]] = {
    "serve": ("broker.cli.serve", "Run the broker."),
    "provide": ("broker.cli.provide", "Attach a ready-made provider over a folder."),
    "query": ("broker.cli.query", "Ask a question and show the composition."),
    "explain": ("broker.cli.explain", "Tell each frame's story, draw it, or replay it."),
    "compositions": ("broker.cli.compositions", "List, show and export what a broker has on record."),
    "verify-citations": ("broker.cli.verify_citations", "Find the citations that a model's answer invented."),
    "report": ("broker.cli.report", "Report which placed frames an answer cites."),
    "push": ("broker.cli.push", "Deliver frames for one request."),
    "providers": ("broker.cli.providers", "List providers and how they fared, or let one sit out."),
    "health": ("broker.cli.health", "Say whether a broker serves."),
    "top": ("broker.cli.top", "Show what a broker does now."),
    "drain": ("broker.cli.drain", "Have a broker take no new requests."),
    "strategies": ("broker.cli.strategies", "List the ranking policies, or hold one against the gate."),
    "config": ("broker.cli.config", "Make, show or check the daemon's configuration."),
    "token": ("broker.cli.token", "Make bearer tokens."),
    "demo": ("broker.cli.demo", "Show raw scores against ranks on a real folder."),
    "completion": ("broker.cli.completion", "Print a shell completion script."),
    "version": ("broker.cli.version", "Print the version."),
}
"""Every command: its module, whose ``command`` it is, and its one line of help."""


class LazyGroup(click.Group):
    """Imports a command's module when that command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Names of the commands, in the order of a first use."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of a name, imported now; None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name][0]}.command is no command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Writes the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; what it raises becomes a plain message and an exit code."""
        prepare(sys.stdout, sys.stderr)
        try:
            return super().invoke(ctx)
        except (click.exceptions.Exit, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - end() raises again what it does not know
            end(ctx, error)


@click.group(
    cls=LazyGroup, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
def cli() -> None:
    """Evidence from many providers, ranked without comparing their scores, placed in a prompt."""


def main() -> None:
    """Runs the ``context-broker`` command; returns by exiting."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by whoever started it: what is written goes nowhere, and no socket gets the stream's number.
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - open as long as the process
    cli(prog_name="context-broker")
