"""``context-broker serve``: the daemon."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from broker.cli.config_options import config_option, secrets_option
from broker.cli.errors import WrongConfiguration
from broker.cli.options import LOG_LEVEL, json_option
from broker.cli.output import write_json, write_lines
from broker.cli.parent import exit_with_parent_option

if TYPE_CHECKING:
    from broker.config import Config

_EXTRA = "pip install 'context-broker[server]'"


EPILOG = """\
\b
--json: one record when ready
  {"event": "ready", "address": "127.0.0.1:7433"}
"""


class ServeCommand(click.Command):
    """Its help ends with a whole configuration file."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the epilog, then the file; where the settings cannot be imported, what they need."""
        super().format_epilog(ctx, formatter)
        try:
            from broker.cli.config_sample import config_sample
        except ModuleNotFoundError as error:
            text = f"(the keys are shown where {error.name} is installed: {_EXTRA})"
        else:
            text = config_sample()
        formatter.write_paragraph()
        formatter.write("  Every key of --config FILE, with its default:\n\n")
        formatter.write("".join(f"  {line}".rstrip() + "\n" for line in text.splitlines()))


@click.command("serve", cls=ServeCommand, epilog=EPILOG)
@click.option("--listen", metavar="HOST:PORT", help="Address; port 0 takes a free one.  [default: 127.0.0.1:7433]")
@click.option("--insecure", is_flag=True, default=None, help="Allow an address that is not loopback without TLS.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate chain (PEM); goes with --tls-key.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Private key (PEM).")
@config_option
@secrets_option
@click.option("--log-level", type=LOG_LEVEL, help="[default: info]")
@json_option
@exit_with_parent_option
@click.pass_context
def command(
    context: click.Context,
    listen: str | None,
    insecure: bool | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    file: Path | None,
    secrets: Path | None,
    log_level: str | None,
    as_json: bool,
) -> None:
    """Run the broker until SIGTERM or Ctrl-C, then finish what is open and exit 0.

    Flags stand above the environment (CONTEXT_BROKER_SECTION__KEY), that above secret files, those above the TOML file,
    that above the defaults. SIGHUP reads all of it again, and takes what can change while the broker runs; "config
    show" says which keys can.
    """
    # Read once, when gRPC is imported. Its core writes a line of its own for each connection that does something wrong,
    # with which anyone who can connect could fill a disk.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        from broker.config import load
        from broker.rpc.process import run
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("broker", "contextbroker"):
            raise
        message = f"the daemon needs {error.name}, which is not installed: {_EXTRA}"
        raise WrongConfiguration(message, code="FAILED_PRECONDITION", reason="EXTRA_MISSING") from None
    server = {"listen": listen, "insecure": insecure, "tls_cert": tls_cert, "tls_key": tls_key}
    flags = {"server": _given(server), "log": _given({"level": log_level})}

    def ready(address: str) -> None:
        if as_json:
            write_json({"event": "ready", "address": address})
        else:
            write_lines([f"context-broker is ready on {address}"])

    def configuration() -> Config:
        return load(flags, file=file, secrets=secrets)

    context.exit(run(configuration(), on_ready=ready, reread=configuration))


def _given(values: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in values.items() if value is not None}
