"""The registry lists the three providers, and importing it imports none of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from broker.errors import InvalidArgument
from broker.providers import PROVIDERS
from broker.providers.provider import folder_root, holds_at


def test_every_provider_is_listed_under_its_own_name():
    assert list(PROVIDERS) == ["files", "symbols", "history"]
    assert [PROVIDERS[name].name for name in PROVIDERS] == list(PROVIDERS)
    assert len({PROVIDERS[name].scale for name in PROVIDERS}) == len(PROVIDERS)
    assert "tickets" not in PROVIDERS
    with pytest.raises(KeyError):
        PROVIDERS["tickets"]


def test_importing_the_registry_imports_no_provider_and_no_engine():
    code = (
        "import sys, broker.providers as p; assert 'files' in p.PROVIDERS; "
        "print(sorted(m for m in sys.modules if m in {'sqlite3', 'asyncio', 'ast', 'grpc', 'tree_sitter', 'structlog'} "
        "or m.startswith('broker.providers.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_provider_needs_grpc():
    code = "import sys; from broker.providers import PROVIDERS as p; [p[n] for n in p]; print('grpc' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["files", "symbols", "history"])
def test_a_folder_that_is_not_there_is_a_plain_error(name: str, tmp_path: Path):
    with pytest.raises(InvalidArgument) as error:
        PROVIDERS[name].open(tmp_path / "missing")
    assert error.value.reason == "FOLDER_MISSING"
    assert "missing" in error.value.message
    assert "name one that exists" in error.value.message


@pytest.mark.parametrize("name", ["files", "symbols", "history"])
def test_a_file_is_no_folder(name: str, tmp_path: Path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(InvalidArgument) as error:
        PROVIDERS[name].open(tmp_path / "a.txt")
    assert error.value.reason == "FOLDER_NOT_A_FOLDER"
    with pytest.raises(InvalidArgument) as error:
        PROVIDERS[name].open(tmp_path / "a.txt" / "below")
    assert error.value.reason == "FOLDER_MISSING"


def test_a_link_that_points_at_itself_and_a_name_no_system_takes_are_plain_errors(tmp_path: Path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for bad in (tmp_path / "loop", Path("a\0b")):
        with pytest.raises(InvalidArgument) as error:
            folder_root(bad)
        assert error.value.reason in {"FOLDER_UNREADABLE", "FOLDER_MISSING"}


def test_the_root_is_absolute_and_free_of_links(tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert folder_root(tmp_path / "link") == (tmp_path / "real").resolve()


def test_a_moment_holds_what_was_recorded_by_then():
    assert holds_at("2026-01-02T03:04:05Z", "")
    assert holds_at("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.5Z")
    assert holds_at("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z")
    assert not holds_at("2026-01-02T03:04:06Z", "2026-01-02T03:04:05.9Z")


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_provider_that_has_nothing_to_answer_from_warns_and_others_do_not(name, folder, write, run_git):
    run_git(folder, "init", "-q")
    with capture_logs() as logs:
        PROVIDERS[name].open(folder).close()
    (told,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert "every answer is empty" in told["event"]
    write("a.py", "def answer():\n    return 42\n")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "answer")
    with capture_logs() as logs:
        PROVIDERS[name].open(folder).close()
    assert [entry for entry in logs if entry["log_level"] == "warning"] == []
