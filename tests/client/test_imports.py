"""What a user imports brings in neither server nor command line, and gRPC only where it is needed."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import get_args, get_type_hints

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
    "broker.gather",
    "broker.rpc",
    "broker.providers",
    "broker.telemetry",
    "broker.settings",
    "broker.config",
}


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


def test_the_values_alone_need_no_grpc():
    modules = modules_after("from broker.client.query import Query\nfrom broker.client import Frame, Floor")
    assert not {name for name in modules if name == "grpc" or name.startswith("grpc.")}
    assert "grpc" in modules_after("from broker.client import Provider")


def reached(annotation: object) -> Iterator[object]:
    """Every type that an annotation names."""
    yield annotation
    for inner in get_args(annotation):
        for one in inner if isinstance(inner, list) else [inner]:
            yield from reached(one)


def annotations(promised: object) -> Iterator[object]:
    """Every annotation of what is promised: of fields, properties, and methods' arguments and results."""
    if not isinstance(promised, type):
        yield promised
        return
    yield from get_type_hints(promised).values()
    for name, member in inspect.getmembers(promised):
        function = member.fget if isinstance(member, property) else member
        if (name == "__init__" or not name.startswith("_")) and inspect.isfunction(function):
            hints = get_type_hints(function, localns={"TracebackType": object})
            yield from hints.values()


def test_every_type_that_a_user_meets_has_a_name_to_annotate_with():
    import broker.client

    promised = {name: getattr(broker.client, name) for name in broker.client.__all__}
    met = {one for each in promised.values() for hint in annotations(each) for one in reached(hint)}
    own = {one for one in met if isinstance(one, type) and one.__module__.startswith("broker.")}
    assert {"AuditRow", "LaneEnd", "Placed"} <= {one.__name__ for one in own}
    assert {one.__name__ for one in own - set(promised.values())} == set()


def test_everything_promised_is_there_and_nothing_else():
    import broker.client

    for name in broker.client.__all__:
        assert getattr(broker.client, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = broker.client.Nothing
