"""``context-broker version``: imports neither grpc nor the server."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import click

from broker import __version__
from broker.cli.options import json_option
from broker.cli.output import write_json, write_lines

PROTOCOL = "contextbroker.v1"
"""The protobuf package that this version speaks."""


EPILOG = """\
\b
--json fields: version, protocol, python, platform, grpcio, protobuf
"""


@click.command("version", epilog=EPILOG)
@json_option
def command(as_json: bool) -> None:
    """Print the version, the protocol spoken and what it runs on."""
    record = {
        "version": __version__,
        "protocol": PROTOCOL,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "grpcio": _installed("grpcio"),
        "protobuf": _installed("protobuf"),
    }
    if as_json:
        write_json(record)
        return
    write_lines(
        [
            f"context-broker {record['version']}",
            f"protocol {record['protocol']}, Python {record['python']}, {record['platform']}",
            f"grpcio {record['grpcio']}, protobuf {record['protobuf']}",
        ]
    )


def _installed(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"
