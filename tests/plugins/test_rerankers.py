"""Rerankers of others are taken by name and held against their protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from broker.errors import ConfigError
from broker.plugins.rerankers import allowed


def test_a_reranker_is_allowed_and_its_file_is_logged(distribution: Path):
    with structlog.testing.capture_logs() as logged:
        assert {name: plugin.version for name, plugin in allowed(["longest"]).items()} == {"longest": "3"}
    assert logged[0]["digest"].startswith("sha256:")
    assert allowed([]) == {}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing", "it has no description, scores"),
        ("longer", "calls itself 'longest'"),
        ("numbered", "its version is no text of 1 to 64 characters"),
        ("silent", "its scores cannot be called"),
        ("kind_first", "no plugin called 'kind_first' is installed (context_broker.rerankers); there are longer"),
    ],
)
def test_what_is_no_reranker_is_refused(distribution: Path, name: str, says: str):
    with pytest.raises(ConfigError) as caught:
        allowed([name])
    assert says in str(caught.value)
