"""The configuration that help shows holds every key, with the default that it really has, and can be used as it is."""

from __future__ import annotations

import re
import tomllib
from typing import Annotated

import pytest
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from broker.cli.config_sample import WIDTH, _example, config_sample, model_of
from broker.config import load
from broker.settings import Config, ConfiguredReranker, ConfiguredTokenizer, KnownProvider, Scale
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
    by_name = {"providers": KnownProvider, "rerankers": ConfiguredReranker, "tokenizers": ConfiguredTokenizer}
    keys = by_name[section].model_fields if section in by_name else annotation.model_fields
    shown = WHOLE[section]["NAME"] if section in by_name else WHOLE[section]
    assert set(shown) == set(keys)


def test_it_holds_the_keys_of_what_lies_deeper():
    (shared,) = WHOLE["ranking"]["shared_scales"]
    assert set(shared) == set(SharedScale.model_fields)
    assert set(WHOLE["providers"]["NAME"]["scale"]) == set(Scale.model_fields)


def test_only_what_has_no_default_is_commented_out():
    given = tomllib.loads(SAMPLE)
    absent = {section: {key for key in WHOLE[section] if key not in given[section]} for section in given}
    assert {section: keys for section, keys in absent.items() if keys} == {
        "server": {"tls_cert", "tls_key", "tls_client_ca"},
        "auth": {"policy", "principals_file", "tokens_file", "jwt"},
        "limits": {"held_bytes", "memory_bytes"},
        "ranking": {"shared_scales"},
        "render": {"seal_key_file"},
        "store": {"file", "dsn_file", "keep_compositions"},
        "admin": {"listen"},
        "traces": {"collector", "tls_ca", "headers_file"},
    }


@pytest.mark.parametrize(
    ("name", "model"),
    [(name, model_of(field.annotation)) for name, field in Config.model_fields.items()],
)
def test_what_stands_for_a_key_without_a_default_is_a_value_that_it_takes(name, model):
    shown = WHOLE[name]["NAME"] if "NAME" in WHOLE[name] else WHOLE[name]
    for key, field in model.model_fields.items():
        if field.get_default(call_default_factory=True) is None and key in shown:
            whole = Annotated[field.annotation, "an example", *field.metadata]
            TypeAdapter(whole).validate_python(shown[key], strict=isinstance(shown[key], int | float))


def test_a_key_with_neither_a_default_nor_an_example_is_a_mistake_of_the_settings():
    with pytest.raises(TypeError, match="neither a default nor an example"):
        _example(FieldInfo(annotation=int | None))


def test_it_fits_a_page():
    assert [line for line in SAMPLE.splitlines() if len(line) > WIDTH and "{" not in line] == []
