"""Of every key the types and the neighbours are known, through tables whose names are the operator's."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.keys import annotation_of, siblings


@pytest.mark.parametrize(
    "key", ["server.tls_key", "store.dsn_file", "auth.jwt.jwks_file", "tokenizers.own.file", "rerankers.near.tls_ca"]
)
def test_keys_that_name_files(key: str) -> None:
    assert Path in annotation_of(key.split("."))


@pytest.mark.parametrize(
    "key", ["server.listen", "providers", "providers.docs", "providers.docs.scale", "no.such", "server.no.such"]
)
def test_keys_that_name_none(key: str) -> None:
    assert Path not in annotation_of(key.split("."))


def test_neighbours_are_those_of_the_table_that_a_key_stands_in() -> None:
    assert "listen" in siblings(("server", "listn"))
    assert set(siblings(("providers", "docs", "scale", "idd"))) == {"id", "min", "max", "direction"}
    assert set(siblings(("ranking", "shared_scales", "0", "idd"))) == {"id", "providers"}
