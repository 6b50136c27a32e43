"""A value of the wrong form gets a plain error that shows the right one, and exit code 2."""

from __future__ import annotations

import math
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from broker.cli.main import cli
from broker.cli.options import FLOOR, NAMED_FILE, NAMED_SCALE, REF, SCALE, WEIGHT, address_option, nearest
from broker.core.frames import FrameRef
from broker.core.request import Floor
from broker.core.scores import Direction, ScoreScale


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
