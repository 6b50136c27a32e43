"""A new token and its line belong together, and are told to whoever asked and to no one else."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from broker.auth.tokens import parse_tokens, token_line
from broker.cli.main import cli


def run(*arguments: str):
    return CliRunner().invoke(cli, ["token", "new", *arguments])


def test_the_line_is_that_of_the_token():
    done = run("spiffe://example.org/search")
    token, line = (line.partition(":")[2].strip() for line in done.stdout.splitlines())
    assert line == token_line(token, "spiffe://example.org/search")
    assert list(parse_tokens(line.encode()).values()) == ["spiffe://example.org/search"]
    assert done.stderr == ""


def test_each_is_another():
    assert run("me").stdout != run("me").stdout


def test_as_json_it_is_one_record():
    record = json.loads(run("me", "--json").stdout)
    assert record.keys() == {"event", "token", "line"}
    assert record["event"] == "token"
    assert record["line"] == token_line(record["token"], "me")


@pytest.mark.parametrize("subject", ["", "two words", "x" * 600, "new\nline"])
def test_what_is_no_subject_is_refused(subject: str):
    done = run(subject)
    assert done.exit_code == 2
    assert "is not a subject" in done.stderr
