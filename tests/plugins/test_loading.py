"""Plugins come by entry points, by name, and nothing is loaded that was not named."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

from broker.errors import ConfigError
from broker.plugins import loading
from broker.plugins.loading import RERANKERS, STRATEGIES, installed, load
from tests.plugins.installing import MODULE, write


def test_what_is_installed_is_listed_and_not_loaded(distribution: Path):
    assert {"kind_first", "uninvited", "absent"} <= set(installed(STRATEGIES))
    assert installed(RERANKERS) == ["longer", "longest", "nothing", "numbered", "silent"]
    assert MODULE not in sys.modules
    assert "uninvited_ranking" not in sys.modules


def test_a_plugin_says_where_it_came_from(distribution: Path):
    loaded = load(STRATEGIES, "kind_first")
    assert (loaded.name, loaded.target) == ("kind_first", f"{MODULE}:KindFirst")
    assert loaded.distribution == "example-ranking 2.0"
    assert loaded.plugin.version == "1.2.0"
    assert loaded.digest == f"sha256:{hashlib.sha256((distribution / f'{MODULE}.py').read_bytes()).hexdigest()}"
    assert "uninvited_ranking" not in sys.modules


def test_an_entry_point_may_name_an_object(distribution: Path):
    assert load(STRATEGIES, "an_object").plugin is sys.modules[MODULE].made


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no_such", ["no plugin called 'no_such'", "context_broker.strategies", "kind_first"]),
        ("longest", ["no plugin called 'longest'"]),
        ("absent", ["'absent'", "no_such_module:Thing", "example-ranking 2.0", "ModuleNotFoundError"]),
        ("missing", ["'missing'", "AttributeError"]),
        ("uninvited", ["'uninvited'", "SystemExit: nobody asked"]),
        ("../evil", ["no plugin called '../evil'"]),
        ("os:system", ["no plugin called 'os:system'"]),
    ],
)
def test_what_cannot_be_loaded_says_why(distribution: Path, name: str, says: list[str]):
    with pytest.raises(ConfigError) as caught:
        load(STRATEGIES, name)
    for part in says:
        assert part in str(caught.value)


def test_without_any_it_says_so():
    with pytest.raises(ConfigError, match="none is installed"):
        load("context_broker.strategies", "kind_first")


def test_of_two_distributions_with_one_name_neither_is_taken(distribution: Path, tmp_path_factory, monkeypatch):
    other = tmp_path_factory.mktemp("other")
    write(other, "rival-ranking", {STRATEGIES: {"kind_first": f"{MODULE}:KindFirst"}})
    monkeypatch.syspath_prepend(other)
    with pytest.raises(ConfigError, match="several plugins are called 'kind_first'") as caught:
        load(STRATEGIES, "kind_first")
    assert "example-ranking" in str(caught.value)
    assert "rival-ranking" in str(caught.value)


def test_a_distribution_found_twice_is_one(distribution: Path, monkeypatch):
    # One folder under two names, as an editable install and the folder itself may be.
    link = distribution.parent / "link"
    link.symlink_to(distribution)
    monkeypatch.syspath_prepend(link)
    assert load(STRATEGIES, "kind_first").name == "kind_first"


def test_an_object_of_a_target_is_made_of_a_class_and_taken_as_it_is_otherwise(distribution: Path):
    assert type(loading.instance_of(f"{MODULE}:KindFirst")).__name__ == "KindFirst"
    assert loading.instance_of("math:pi") == pytest.approx(3.14159, abs=1e-4)
