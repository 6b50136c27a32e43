"""What the script for secrets makes is what a broker and its clients need, for its owner alone; what is there stays."""

from __future__ import annotations

import stat
from pathlib import Path

from broker.auth.tokens import parse_tokens, token_line
from tests.deploy.conftest import DEPLOY, Run


def test_no_one_else_can_read_them(made_secrets: Path) -> None:
    files = [file for file in made_secrets.rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)]


def test_the_certificate_is_for_the_names_that_it_is_asked_under(made_secrets: Path, tool: Run) -> None:
    for name in ("localhost", "broker", "context-broker", "broker.example"):
        done = tool(
            "openssl", "verify", "-CAfile", str(made_secrets / "clients" / "ca.pem"), "-verify_hostname", name,
            str(made_secrets / "broker" / "server__tls_cert"),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_each_token_is_one_whose_hash_the_broker_keeps(made_secrets: Path) -> None:
    kept = (made_secrets / "broker" / "auth__tokens_file").read_bytes()
    for subject in ("provider", "orchestrator", "operator"):
        token = (made_secrets / "clients" / f"{subject}.token").read_text().strip()
        assert token_line(token, subject) in kept.decode().splitlines()
    assert sorted(parse_tokens(kept).values()) == ["operator", "orchestrator", "provider"]


def test_what_is_there_is_kept(made_secrets: Path, tool: Run) -> None:
    before = {file: file.read_bytes() for file in made_secrets.rglob("*") if file.is_file()}
    assert tool("bash", str(DEPLOY / "make-secrets.sh"), str(made_secrets)).returncode == 0
    assert {file: file.read_bytes() for file in made_secrets.rglob("*") if file.is_file()} == before
