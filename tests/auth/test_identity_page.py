"""What the page shows can be used as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import broker.auth
from broker.auth.caller import Role
from broker.auth.methods import ROLES
from broker.auth.parts import Kind
from broker.auth.principals import parse_principals
from broker.config import load
from broker.settings.auth import PARTS

PAGE = (Path(broker.auth.__file__).parent / "IDENTITY.md").read_text()
CONFIG, PRINCIPALS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def test_the_configuration_loads_and_its_principals_too(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(CONFIG)
    kinds = frozenset(map(Kind, load(file=file).auth.parts))
    found = parse_principals(PRINCIPALS.encode(), kinds)
    assert [(one.tenant, one.role) for one in found.values()] == [
        *((tenant, role) for tenant in ("blue", "red") for role in (Role.PROVIDER, Role.ORCHESTRATOR)),
        ("", Role.OPERATOR),
    ]


def test_every_part_and_role_is_explained() -> None:
    assert all(f"| `{name}` |" in PAGE for name in (*PARTS, *(role.value for role in Role)))


def test_an_operator_may_call_what_the_page_says() -> None:
    (row,) = re.findall(r"^\| `operator` \| (.*) \|$", PAGE, re.MULTILINE)
    assert "OperatorService" in row
    assert not {method for method, roles in ROLES.items() if Role.OPERATOR in roles} & {"Compose", "Attach", "Push"}
