"""A secret file sets the key that it is named after, stands below the environment, and is never shown."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.config import SECRETS_VARIABLE, load, read
from broker.errors import ConfigError
from broker.settings import PREFIX

Secrets = Callable[..., Path]


@pytest.fixture(autouse=True)
def _no_variables_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith(PREFIX):
            monkeypatch.delenv(name)


@pytest.fixture
def secrets(tmp_path: Path) -> Secrets:
    def make(*, mode: int = 0o600, **files: str) -> Path:
        directory = tmp_path / "secrets"
        directory.mkdir(exist_ok=True)
        for name, text in files.items():
            (directory / name).write_text(text)
            (directory / name).chmod(mode)
        return directory

    return make


def wrong(directory: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(secrets=directory)
    return str(caught.value)


def test_a_file_holds_the_value_of_its_key(secrets: Secrets) -> None:
    directory = secrets(limits__max_lanes=" 12\n", ranking__lane_order="b, a", providers__docs__hedge_seconds="2")
    config = load(secrets=directory)
    assert config.limits.max_lanes == 12
    assert config.ranking.lane_order == ("b", "a")
    assert config.providers["docs"].hedge_seconds == 2


def test_a_key_that_names_a_file_is_given_that_very_file(secrets: Secrets) -> None:
    directory = secrets(render__seal_key_file="the key itself", providers__docs__scale__id="bm25")
    found = read(secrets=directory)
    assert found.config.render.seal_key_file == directory / "render__seal_key_file"
    assert not found.is_secret(("render", "seal_key_file"))
    assert found.is_secret(("providers", "docs", "scale", "id"))


def test_files_stand_below_the_environment_and_above_the_configuration_file(
    secrets: Secrets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "broker.toml"
    path.write_text("[limits]\nmax_tokens = 1\nmax_frames = 1\nlane_frames = 1\n")
    directory = secrets(limits__max_tokens="2", limits__max_frames="2")
    monkeypatch.setenv("CONTEXT_BROKER_LIMITS__MAX_TOKENS", "3")
    found = read({"log": {"level": "debug"}}, file=path, secrets=directory)
    limits = found.config.limits
    assert (limits.max_tokens, limits.max_frames, limits.lane_frames) == (3, 2, 1)
    assert found.origin(("limits", "max_tokens")) == "environment variable CONTEXT_BROKER_LIMITS__MAX_TOKENS"
    assert found.origin(("limits", "max_frames")) == f"secret file {directory / 'limits__max_frames'}"
    assert found.origin(("limits", "lane_frames")) == f"configuration file {path}"
    assert found.origin(("limits", "lane_tokens")) == "default"
    assert found.origin(("log", "level")) == "flag"
    assert [found.is_secret(("limits", key)) for key in ("max_tokens", "max_frames", "lane_frames")] == [
        False,
        True,
        False,
    ]


def test_the_environment_may_name_the_directory(secrets: Secrets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRETS_VARIABLE, str(secrets(limits__max_lanes="7")))
    assert load().limits.max_lanes == 7


def test_what_containers_keep_beside_secrets_is_not_looked_at(secrets: Secrets) -> None:
    directory = secrets(limits__max_lanes="7")
    (directory / "..data").mkdir()
    (directory / ".hidden").write_text("x")
    (directory / "folder").mkdir()
    assert load(secrets=directory).limits.max_lanes == 7


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("limits__max_lane", "1", "there is no key 'limits.max_lane'; the nearest is 'limits.max_lanes'"),
        ("limit__max_lanes", "1", "there is no section 'limit'; the nearest is 'limits'"),
        ("limits_max_lanes", "1", "name it SECTION__KEY"),
        ("limits__max_lanes", "x" * 70_000, "more than 65536 bytes"),
    ],
)
def test_a_file_that_would_set_nothing_is_told(secrets: Secrets, name: str, text: str, told: str) -> None:
    message = wrong(secrets(**{name: text}))
    assert told in message
    assert name in message


def test_a_wrong_value_is_told_and_not_shown(secrets: Secrets) -> None:
    message = wrong(secrets(limits__max_lanes="hunter2"))
    assert "limits.max_lanes" in message
    assert "valid integer" in message
    assert "hunter2" not in message


def test_a_file_that_everyone_can_read_is_refused(secrets: Secrets) -> None:
    assert "chmod o-r" in wrong(secrets(mode=0o644, limits__max_lanes="7"))


def test_a_file_that_is_no_text_is_told(secrets: Secrets) -> None:
    directory = secrets(limits__max_lanes="7")
    (directory / "limits__max_lanes").write_bytes(b"\xff")
    assert "is not UTF-8" in wrong(directory)


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert str(tmp_path / "none") in wrong(tmp_path / "none")
