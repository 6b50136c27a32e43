"""Secrets are read once, checked, and refused with the name of the key that named them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.errors import ConfigError
from broker.rpc.credentials import seal_key


def secret(path: Path, content: bytes = b"0123456789abcdef", mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_seal_key_is_the_files_content_without_white_space_around_it(tmp_path: Path) -> None:
    assert seal_key(secret(tmp_path / "key", b" 0123456789abcdef\n")) == b"0123456789abcdef"


def test_without_a_file_the_key_is_new_each_time_and_the_log_says_what_that_means() -> None:
    with capture_logs() as logs:
        keys = {seal_key(None), seal_key(None)}
    assert len(keys) == 2
    assert all(len(key) >= 32 for key in keys)
    assert all(entry["log_level"] == "warning" and "restart" in entry["event"] for entry in logs)
    assert len(logs) == 2


@pytest.mark.parametrize("content", [b"", b"short", b" " * 40, b"0123456789abcde\n\n"])
def test_a_short_seal_key_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ConfigError, match=r"render\.seal_key_file.*at least 16"):
        seal_key(secret(tmp_path / "key", content))


@pytest.mark.parametrize("mode", [0o644, 0o604])
def test_a_seal_key_that_all_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match="readable by all"):
        seal_key(secret(tmp_path / "key", mode=mode))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"render\.seal_key_file: .*missing"):
        seal_key(tmp_path / "missing")


@pytest.mark.parametrize(("trial", "level"), [(True, "info"), (False, "warning")])
def test_how_to_make_a_key_is_told_in_one_line_and_warned_of_only_where_others_can_reach_the_broker(
    trial: bool, level: str
) -> None:
    with capture_logs() as logs:
        seal_key(None, trial=trial)
    (entry,) = logs
    assert entry["log_level"] == level
    assert "openssl rand -hex 32 > seal.key" in entry["event"]
    assert "render.seal_key_file" in entry["event"]
    assert "\n" not in entry["event"]


def test_the_key_that_the_log_says_how_to_make_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs openssl, which the advice names")
    with capture_logs() as logs:
        seal_key(None)
    monkeypatch.chdir(tmp_path)
    told = re.search(r"\(umask [^)]*\)", logs[0]["event"])
    assert told is not None
    subprocess.run(["sh", "-c", told[0]], check=True)
    assert len(seal_key(tmp_path / "seal.key")) == 64
