"""A value of the wrong form gets a plain error that shows the right one, and exit code 2."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from broker.auth.caller import Role
from broker.auth.methods import ROLES
from broker.cli.main import cli
from broker.cli.options import FLOOR, NAMED_FILE, NAMED_SCALE, REF, SCALE, WEIGHT, address_option, nearest
from broker.cli.typed import in_commands
from broker.core.frames import FrameRef
from broker.core.request import Floor
from broker.core.scores import Direction, ScoreScale
from tests.authority import Authority


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (FLOOR, "files:bm25=-2.5", Floor("files", "bm25", -2.5)),
        (FLOOR, "a:b=1e3", Floor("a", "b", 1000.0)),
        (WEIGHT, "files=0", ("files", 0.0)),
        (REF, "files:src/a.py:L1=2", FrameRef("files", "src/a.py:L1=2")),
        (SCALE, "unit:0:1", ScoreScale()),
        (SCALE, "bm25:-inf:0:lower", ScoreScale("bm25", -math.inf, 0.0, Direction.LOWER_IS_BETTER)),
        (SCALE, "list:as_sent", ScoreScale("list", direction=Direction.AS_SENT)),
        (NAMED_SCALE, "memory=cosine:-1:1:higher", ("memory", ScoreScale("cosine", -1.0, 1.0))),
        (NAMED_FILE, "memory=-", ("memory", Path("-"))),
    ],
)
def test_right_forms(form, text, value):
    assert form.convert(text, None, None) == value


@pytest.mark.parametrize(
    ("form", "text", "says"),
    [
        (FLOOR, "files=0.5", "PROVIDER:SCALE=VALUE"),
        (FLOOR, "files:bm25", "PROVIDER:SCALE=VALUE"),
        (FLOOR, ":bm25=1", "missing around ':'"),
        (FLOOR, "files:bm25=much", "'much' is not a number"),
        (WEIGHT, "files", "files=2"),
        (REF, "files", "PROVIDER:FRAME_ID"),
        (SCALE, "unit", "two ends"),
        (SCALE, "unit:1:0", "must be below"),
        (SCALE, "unit:0:1:better", "'higher' or 'lower'"),
        (NAMED_SCALE, "unit:0:1", "missing around '='"),
        (NAMED_FILE, "notes.jsonl", "NAME=FILE"),
    ],
)
def test_wrong_forms_are_told_the_right_one(form, text, says):
    with pytest.raises(click.BadParameter, match="expected") as caught:
        form.convert(text, None, None)
    assert says in caught.value.message
    assert caught.value.exit_code == 2


def test_the_nearest_word_is_offered():
    assert nearest("titel", ["id", "title"]) == "; did you mean 'title'?"
    assert nearest("xyz", ["id", "title"]) == ""


def test_a_named_file_must_be_there(tmp_path):
    path = tmp_path / "a=b.jsonl"
    with pytest.raises(click.BadParameter, match="does not exist"):
        NAMED_FILE.convert(f"memory={path}", None, None)
    path.touch()
    assert NAMED_FILE.convert(f"memory={path}", None, None) == ("memory", path)


@pytest.mark.parametrize(
    "address", ["localhost", "127.0.0.1:abc", "nohost", "127.0.0.1:0", "http://localhost:7433", ""]
)
@pytest.mark.parametrize("command", ["query q", "providers", "strategies", "push a b -", "provide files ."])
def test_an_address_that_is_none_is_wrong_usage_in_every_command(address, command):
    done = CliRunner().invoke(cli, [*command.split(), "--address", address], input="")
    assert done.exit_code == 2
    assert "--address" in done.stderr
    assert "host:port" in done.stderr


def test_an_address_of_the_environment_is_checked_too(monkeypatch):
    monkeypatch.setenv("CONTEXT_BROKER_ADDRESS", "nohost")
    done = CliRunner().invoke(cli, ["providers"])
    assert done.exit_code == 2
    assert "CONTEXT_BROKER_ADDRESS" in done.stderr


def access_of(*arguments: str, **env: str) -> dict[str, object]:
    found: dict[str, object] = {}

    @click.command()
    @address_option
    def command(address: str, access: dict[str, object]) -> None:
        found.update(access, address=address)

    done = CliRunner().invoke(command, list(arguments), env=env)
    assert done.exit_code == 0, done.output
    return {name: value for name, value in found.items() if value is not None}


def test_who_asks_is_told_by_options_or_the_environment(tmp_path):
    file = tmp_path / "token"
    file.write_text("t")
    assert access_of("--address", "h:1") == {"address": "h:1"}
    assert access_of("--address", "h:1", CONTEXT_BROKER_TOKEN="t") == {"address": "h:1", "token": "t"}
    named = access_of("--address", "h:1", "--token-file", str(file), CONTEXT_BROKER_TOKEN="t")
    assert named == {"address": "h:1", "token_file": file}
    pair = {"CONTEXT_BROKER_CLIENT_CERT": str(file), "CONTEXT_BROKER_CLIENT_KEY": str(file)}
    assert access_of("--address", "h:1", **pair) == {"address": "h:1", "tls_cert": file, "tls_key": file}


def test_a_token_is_no_option_since_others_can_read_a_command_line():
    @click.command()
    @address_option
    def command(**_: object) -> None:
        """Never run."""

    assert CliRunner().invoke(command, ["--token", "t"]).exit_code == 2


def every_command(command: click.Command, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """A command and those below it, by the words that are typed."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below, *path, name)


ALL = dict(every_command(cli))

METHODS = {
    "query": ["Compose"],
    "explain": ["GetComposition"],
    "compositions list": ["ListCompositions"],
    "compositions show": ["GetComposition"],
    "compositions export": ["ListCompositions", "GetComposition"],
    "verify-citations": ["GetComposition", "ReportAttribution"],
    "report": ["GetComposition", "ReportAttribution"],
    "push": ["Push"],
    "provide": ["Attach"],
    "providers": ["ListProviders"],
    "providers stats": ["GetProviderStatistics"],
    "providers quarantine": ["QuarantineProvider"],
    "providers release": ["ReleaseProvider"],
    "strategies": ["ListStrategies"],
    "top": ["ListProviders"],
    "drain": ["DrainBroker"],
    "health": [],
}
"""What each command that connects calls, beside health, which is open."""


def helped(*path: str) -> str:
    done = CliRunner().invoke(cli, [*path, "--help"], terminal_width=200, max_content_width=200)
    assert done.exit_code == 0
    return " ".join(done.stdout.split())


def test_every_command_that_connects_says_which_role_it_needs():
    asking = {" ".join(path) for path, each in ALL.items() if any("--address" in p.opts for p in each.params)}
    assert asking == METHODS.keys()
    for command, methods in METHODS.items():
        text = helped(*command.split())
        wanted = [ROLES[method] for method in methods]
        named = {role for role in Role if re.search(rf'"{role.value}"(?!:)', text)}
        # One role must do for all that a command calls, and each that does for a part of it may be named too.
        assert set().union(*wanted) >= named
        assert not wanted or named & set.intersection(*map(set, wanted)), command


def test_every_variable_that_works_stands_in_the_help():
    for path, command in ALL.items():
        variables = {str(each.envvar) for each in command.params if each.envvar}
        if any("--token-file" in each.opts for each in command.params):
            variables.add("CONTEXT_BROKER_TOKEN")
        text = helped(*path)
        assert {name for name in variables if not re.search(rf"{name}(?!\w)", text)} == set(), path


def test_a_keyword_of_the_client_is_told_as_the_option_that_it_is():
    assert in_commands("give tls_ca, or tls_cert and tls_key.") == "give --tls-ca, or --tls-cert and --tls-key."
    for kept in ("/etc/tls_ca.pem", "server.tls_cert", "my-tls_key", "tls_cape"):
        assert in_commands(kept) == kept


def test_a_broker_with_tls_is_told_from_one_that_is_not_there(tmp_path, run_command, start_command):
    cert, key = Authority(tmp_path).issue("server")
    address = start_command("serve", "--listen", "127.0.0.1:0", "--tls-cert", str(cert), "--tls-key", str(key)).ready[
        "address"
    ]
    for arguments in (["query", "g"], ["providers"], ["drain"], ["health"]):
        done = run_command(*arguments, "--address", address)
        assert done.returncode == 2, done.stderr
        assert b"speaks TLS, and this client does not: give --tls-ca" in done.stderr
