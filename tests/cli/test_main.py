"""A subcommand imports only what it needs, and every failure ends with a plain message and a documented code."""

from __future__ import annotations

import errno
import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

import broker
from broker.cli.errors import Failure
from broker.cli.main import COMMANDS, LazyGroup, cli
from broker.errors import ConfigError, FieldViolation, InvalidArgument, Unavailable


def _run(*arguments, **options):
    return CliRunner().invoke(cli, arguments, prog_name="context-broker", **options)


def test_version_imports_neither_grpc_nor_server_nor_protobuf():
    code = (
        "import sys; from broker.cli.main import cli; cli(['version'], standalone_mode=False);"
        "print([m for m in sys.modules if m.split('.')[0] in ('grpc', 'google', 'pydantic', 'rich', 'asyncio')"
        " or m.startswith(('broker.rpc', 'broker.gather', 'broker.client', 'contextbroker'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == f"context-broker {broker.__version__}"
    assert done.stdout.splitlines()[-1] == "[]"


def test_version_as_json_is_one_object():
    record = json.loads(_run("version", "--json").stdout)
    assert set(record) == {"version", "protocol", "python", "platform", "grpcio", "protobuf"}
    assert record["version"] == broker.__version__


def test_help_lists_every_command_and_the_exit_codes():
    text = _run("--help").stdout
    for name, (_, line) in COMMANDS.items():
        assert name in text
        assert line in text
    for code in ("0 ", "1 ", "2 ", "130"):
        assert f"  {code}" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_takes_json_where_it_gives_data(name):
    done = _run(name, "--help")
    assert done.exit_code == 0
    assert ("--json" in done.stdout) is (name not in ("completion", "token"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["qurey"], "No such command 'qurey'"),
        (["query"], "Missing argument 'GOAL'"),
        (["query", "q", "--strategy", "best"], "'score_descending'"),
        (["query", "q", "--placement", "middle"], "'fold', 'rank_order', 'reverse_rank', 'canonical'"),
        (["query", "q", "--max-tokens", "0"], "x>=1"),
        (["query", "q", "--floor", "files=1"], "such as symbols:name-match=0.4"),
        (["query", "q", "--k", "3"], "--k goes with"),
        (["query", "q", "--expect-push", "a"], "needs --request-id"),
        (["provide", "photos", "."], "'files', 'symbols', 'history'"),
        (["demo", "no-such-folder"], "does not exist"),
        (["push", "a", "r", "no-such-file"], "does not exist"),
    ],
)
def test_wrong_usage_exits_2_and_names_what_is_allowed(arguments, says):
    done = _run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr


def test_with_json_wrong_usage_is_a_record_too():
    done = _run("query", "q", "--json", "--strategy", "best")
    record = json.loads(done.stdout)
    assert (done.exit_code, record["event"], record["code"]) == (2, "error", "INVALID_ARGUMENT")
    assert "round_robin" in record["message"]
    assert "contradict" in json.loads(_run("query", "q", "--json", "--prompt").stdout)["message"]


@pytest.fixture
def raising(monkeypatch):
    """A group whose one command raises what it is told to."""

    def make(error):
        @click.command("boom")
        @click.option("--json", "as_json", is_flag=True)
        @click.pass_context
        def boom(context, as_json):
            if as_json:
                from broker.cli.errors import remember_json

                remember_json(context)
            raise error

        monkeypatch.setattr(LazyGroup, "get_command", lambda *_: boom)
        return CliRunner().invoke(cli, ["boom"]), CliRunner().invoke(cli, ["boom", "--json"])

    return make


VIOLATIONS = [FieldViolation("floors[0].value", "FLOOR_RANGE", "too low"), FieldViolation("goal", "EMPTY", "say more")]


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (Unavailable("NO_BROKER", "no broker at 1.2.3.4:5", retry_after=2.0), 1, "trying again after 2 s may help"),
        (InvalidArgument.of(VIOLATIONS), 2, "floors[0].value: too low"),
        (InvalidArgument.of(VIOLATIONS[:1]), 2, "[INVALID_ARGUMENT FLOOR_RANGE]"),
        (ConfigError("there is no key 'listne'"), 2, "there is no key 'listne'"),
        (OSError(errno.EADDRINUSE, "address in use", "127.0.0.1:1"), 1, "127.0.0.1:1: address in use"),
    ],
)
def test_errors_become_a_message_and_a_code_and_with_json_a_record(raising, error, code, says):
    plain, as_json = raising(error)
    assert (plain.exit_code, plain.stdout) == (code, "")
    assert says in plain.stderr
    assert "Traceback" not in plain.stderr
    record = json.loads(as_json.stdout)
    assert (as_json.exit_code, record["event"]) == (code, "error")
    assert {"code", "reason", "message", "violations"} <= set(record)


ESCAPES = "m\x1b[2J\x07\x9b\u202e\rx\u2028y"


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("ALL_LANES_FAILED", f"no provider answered: {ESCAPES}"),
        InvalidArgument.of([FieldViolation(ESCAPES, "WRONG", ESCAPES)] * 2),
        Failure(ESCAPES),
        ConfigError(ESCAPES),
        OSError(errno.ENOENT, "no such file", ESCAPES),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_another_party_wrote_into_a_message_cannot_steer_the_terminal(raising, error):
    plain, as_json = raising(error)
    for text in (plain.output, as_json.output):
        assert not [c for c in text if c != "\n" and not c.isprintable()]
        assert "⟦U+001B⟧[2J" in text


def test_violations_stand_in_the_record(raising):
    record = json.loads(raising(InvalidArgument.of(VIOLATIONS))[1].stdout)
    assert [violation["field"] for violation in record["violations"]] == ["floors[0].value", "goal"]
    assert record["reason"] == "FLOOR_RANGE"


@pytest.mark.parametrize("closed", ["", "1>&-", "2>&-", "1>&- 2>&-"])
def test_a_stream_that_is_closed_is_no_fault(closed):
    code = "from broker.cli.main import main; main()"
    command = f'exec "$0" -c "$1" version {closed}'
    done = subprocess.run(["/bin/sh", "-c", command, sys.executable, code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_exits_130_without_a_word(raising):
    done, _ = raising(KeyboardInterrupt())
    assert (done.exit_code, done.stdout) == (130, "")
    assert "Traceback" not in done.stderr


def test_a_fault_of_our_own_is_not_hidden(raising):
    done, _ = raising(ZeroDivisionError("ours"))
    assert isinstance(done.exception, ZeroDivisionError)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_this_command(shell):
    done = _run("completion", shell)
    assert done.exit_code == 0
    assert "_CONTEXT_BROKER_COMPLETE" in done.stdout
