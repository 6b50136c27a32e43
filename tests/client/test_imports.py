"""What a user imports brings in neither server nor command line, and gRPC only where it is needed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

FORBIDDEN = {
    "click",
    "rich",
    "pydantic",
    "pydantic_settings",
    "protovalidate",
    "uvloop",
    "structlog",
    "sqlite3",
    "broker.cli",
    "broker.rpc",
    "broker.providers",
    "broker.telemetry",
    "broker.settings",
    "broker.config",
}
GATHER = {"broker.gather", "broker.gather.events", "broker.gather.fabric"}
"""The plain values that both ends of a session speak in."""


def modules_after(code: str) -> set[str]:
    program = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return set(json.loads(done.stdout))


@pytest.mark.parametrize(
    "code",
    [
        "import broker.client",
        "from broker.client import Provider, ContextClient, BlockingContextClient",
        "from broker.client import *",
    ],
)
def test_no_server_or_command_line_part_comes_along(code: str):
    modules = modules_after(code)
    assert not modules & FORBIDDEN
    assert {name for name in modules if name.startswith("broker.gather")} <= GATHER


def test_the_values_alone_need_no_grpc():
    modules = modules_after("from broker.client.query import Query\nfrom broker.client import Frame, Floor")
    assert not {name for name in modules if name == "grpc" or name.startswith("grpc.")}
    assert "grpc" in modules_after("from broker.client import Provider")


def test_everything_promised_is_there_and_nothing_else():
    import broker.client

    for name in broker.client.__all__:
        assert getattr(broker.client, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = broker.client.Nothing
