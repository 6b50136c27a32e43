"""The configuration that help shows holds every key, with the default that it really has, and can be used as it is."""

from __future__ import annotations

import re
import tomllib

import pytest

from broker.cli.config_sample import WIDTH, config_sample
from broker.config import load
from broker.settings import Config, ConfiguredReranker, KnownProvider, Scale
from broker.settings.ranking import SharedScale

SAMPLE = config_sample()
WHOLE = tomllib.loads(re.sub(r"^# (?=\[|\w+ = )", "", SAMPLE, flags=re.MULTILINE))
"""With what is commented out."""


def test_it_is_the_default_configuration(tmp_path, monkeypatch):
    monkeypatch.delenv("CONTEXT_BROKER_CONFIG", raising=False)
    path = tmp_path / "broker.toml"
    path.write_text(SAMPLE)
    assert load(file=path).model_dump() == load().model_dump()


@pytest.mark.parametrize("section", Config.model_fields)
def test_it_holds_every_key(section):
    annotation = Config.model_fields[section].annotation
    by_name = {"providers": KnownProvider, "rerankers": ConfiguredReranker}
    keys = by_name[section].model_fields if section in by_name else annotation.model_fields
    shown = WHOLE[section]["NAME"] if section in by_name else WHOLE[section]
    assert set(shown) == set(keys)


def test_it_holds_the_keys_of_what_lies_deeper():
    (shared,) = WHOLE["ranking"]["shared_scales"]
    assert set(shared) == set(SharedScale.model_fields)
    assert set(WHOLE["providers"]["NAME"]["scale"]) == set(Scale.model_fields)


def test_only_what_has_no_default_is_commented_out():
    given = tomllib.loads(SAMPLE)
    absent = {key for section in given for key in WHOLE[section] if key not in given[section]}
    assert absent == {"tls_cert", "tls_key", "seal_key_file", "shared_scales"}


def test_it_fits_a_page():
    assert [line for line in SAMPLE.splitlines() if len(line) > WIDTH and "{" not in line] == []
