"""Every definition in Python source is found where it stands; what is no Python is told apart."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import pytest

from broker.providers.definitions import MAX_DOC_CHARACTERS, Definition, Unparsable
from broker.providers.python_definitions import python_definitions

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*(ROOT / "broker").rglob("*.py"), *(ROOT / "protos").rglob("*.py*"), *(ROOT / "tests").rglob("*.py")])

SAMPLE = '''"""About the module."""

LIMIT: int = 3
"""How many."""

@decorated(
    1
)
class Outer(Base):
    """About the class."""

    field = 1

    @property
    async def method(self):
        def inner():
            pass

if True:
    try:
        A = B = 2
    except E:
        def fallback(): pass
(x, y) = 1, 2
__all__ = ["A"]
match 1:
    case 1:
        class Matched: ...
'''


class Oracle(ast.NodeVisitor):
    """Collects names by the standard library's visitor, recursively, which is not how the module does it."""

    def __init__(self):
        self.found = []
        self.scope = []

    def _block(self, node):
        self.found.append((".".join([*self.scope, node.name]), node.end_lineno))
        self.scope.append(node.name)
        self.generic_visit(node)
        self.scope.pop()

    def visit(self, node):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._block(node)
        else:
            self.generic_visit(node)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_projects_own_definitions_are_those_the_standard_library_sees(path: Path):
    text = path.read_text()
    oracle = Oracle()
    oracle.visit(ast.parse(text))
    found = python_definitions(text, path.stem)
    blocks = [(d.qualified, d.last) for d in found if d.kind in {"class", "function", "method"}]
    assert sorted(blocks) == sorted(oracle.found)
    lines = text.split("\n")
    for definition in found:
        assert 1 <= definition.first <= definition.last <= len(lines)
        if definition.kind != "module":
            assert definition.name in "\n".join(lines[definition.first - 1 : definition.last])


def test_each_definition_has_its_kind_scope_lines_and_docstring():
    found = python_definitions(SAMPLE, "sample")
    assert found == [
        Definition("sample", "", "module", 1, 1, "About the module."),
        Definition("LIMIT", "", "name", 3, 4, "How many."),
        Definition("Outer", "", "class", 6, 17, "About the class."),
        Definition("method", "Outer", "method", 14, 17, ""),
        Definition("inner", "Outer.method", "function", 16, 17, ""),
        Definition("A", "", "name", 21, 21, ""),
        Definition("B", "", "name", 21, 21, ""),
        Definition("fallback", "", "function", 23, 23, ""),
        Definition("Matched", "", "class", 28, 28, ""),
    ]


@pytest.mark.parametrize("text", ["def (:", "print 'two'", "(" * 5_000, "a\0b", "x = 1\rdef f(): pass\n"])
def test_what_is_no_source_that_lines_up_is_told_apart(text: str):
    with pytest.raises(Unparsable):
        python_definitions(text, "m")


def test_deep_nesting_is_read_or_told_apart_and_never_breaks():
    for text in (
        "x = " + "-" * 5_000 + "1",
        "x = " + "a." * 5_000 + "b",
        "".join(" " * n + "if 1:\n" for n in range(90)),
    ):
        try:
            python_definitions(text, "m")
        except Unparsable:
            continue


def test_windows_line_ends_and_a_byte_order_mark_change_no_line():
    text = "﻿" + SAMPLE.replace("\n", "\r\n")
    assert [d.first for d in python_definitions(text, "sample")] == [
        d.first for d in python_definitions(SAMPLE, "sample")
    ]


def test_doubtful_source_warns_no_one():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [d.name for d in python_definitions("x = '\\d'\ny = 1 is 1\n", "m")] == ["x", "y"]


def test_a_long_docstring_is_bounded():
    found = python_definitions(f'def f():\n    """{"a " * 10_000}"""\n', "m")
    assert len(found[0].doc) == MAX_DOC_CHARACTERS


def test_an_empty_file_defines_nothing():
    assert python_definitions("", "m") == []
