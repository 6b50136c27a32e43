"""Promise: a document is found by what an operator knows of it, on every engine alike, and by nothing less."""

from __future__ import annotations

from typing import Any

import pytest

from broker.core.records import Filter
from broker.store import statements
from broker.store.engine import Engine
from broker.store.migrating import migrate
from broker.store.values import KeptFrame
from tests.store.values import kept

FROM_FILES = (
    KeptFrame("files", "docs/README.md#L1-12", "OVER_BUDGET", "file:///srv/wiki/docs/README.md"),
    KeptFrame("files", "OLDREADME.md#L1", "", "file:///srv/wiki/OLDREADME.md"),
    KeptFrame("tickets", "T-17#2", ""),
    KeptFrame("tickets", "row 4", "", "https://tracker.example/tickets/T-18/"),
    KeptFrame("tickets", "", "INVALID"),
)


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("README.md", True),
        ("docs/README.md", True),
        ("./docs/README.md", True),
        ("/srv/wiki/docs/README.md", True),
        ("file:///srv/wiki/docs/README.md", True),
        ("docs/README.md#L1-12", True),
        ("OLDREADME.md", True),
        ("T-17", True),
        ("T-17#2", True),
        ("row 4", True),
        ("tickets/T-18", True),
        ("readme.md", False),
        ("EADME.md", False),
        ("README", False),
        ("other/README.md", False),
        ("README.md/", True),
        ("%.md", False),
        ("R_ADME.md", False),
        ("#", False),
        ("/", False),
    ],
)
async def test_a_document_is_found_by_the_last_segments_of_its_path_or_an_id(
    engine: Engine, named: str, found: bool
) -> None:
    await migrate(engine)
    await engine.run(lambda c: statements.record(c, kept("c1", frames=FROM_FILES)), write=True)
    await engine.run(lambda c: statements.record(c, kept("c2")), write=True)
    heads = await engine.run(lambda c: statements.heads(c, "acme", Filter(document=named), None, 9), write=False)
    assert [head.composition_id for head in heads] == (["c1"] if found else [])


async def test_what_else_is_said_of_a_frame_is_said_of_the_documents_frame(engine: Engine) -> None:
    await migrate(engine)
    await engine.run(lambda c: statements.record(c, kept("c1", frames=FROM_FILES)), write=True)

    async def found(**wanted: Any) -> bool:
        sought = Filter(document="README.md", **wanted)
        return bool(await engine.run(lambda c: statements.heads(c, "acme", sought, None, 9), write=False))

    assert await found(placed=False)
    assert await found(provider="files", reason="OVER_BUDGET")
    assert not await found(placed=True)
    assert not await found(provider="tickets")
