"""Definitions in Python source, by the standard library's parser; nothing of the source is run."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from itertools import pairwise

from broker.providers.definitions import MAX_DOC_CHARACTERS, Definition, Unparsable

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_definitions(text: str, module: str) -> list[Definition]:
    """The classes, functions and methods at every depth, the module's own names, and the module if it has a docstring.

    Args:
        text: The source.
        module: The module's name, for the definition that stands for it.

    Raises:
        Unparsable: It is not Python of this interpreter's version, or nested too deeply for its parser.
    """
    if "\r" in text.replace("\r\n", ""):
        # The parser ends a line there and line ranges do not, so that they would not name the same lines.
        raise Unparsable
    try:
        with warnings.catch_warnings():
            # What is doubtful in someone's source, such as a stray backslash, is no concern of ours.
            warnings.simplefilter("ignore")
            tree = ast.parse(text.removeprefix("\ufeff"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise Unparsable from None
    found = list(_definitions(tree))
    doc = _own_docstring(tree)
    if doc is not None:
        found.insert(0, Definition(module, "", "module", 1, doc.end_lineno or 1, _text(doc)))
    return found


def _definitions(tree: ast.Module) -> Iterator[Definition]:
    after = _strings_after(tree)
    waiting: list[tuple[ast.AST, str, bool]] = [(node, "", False) for node in reversed(tree.body)]
    while waiting:
        node, scope, in_class = waiting.pop()
        if isinstance(node, ast.ClassDef | _Function):
            yield _block(node, scope, in_class=in_class)
            scope = f"{scope}.{node.name}" if scope else node.name
            in_class = isinstance(node, ast.ClassDef)
        elif not scope:
            for name in _assigned(node):
                doc = after.get(id(node))
                last = doc.end_lineno if doc is not None else getattr(node, "end_lineno", None)
                first = getattr(node, "lineno", 1)
                yield Definition(name, "", "name", first, last or first, _text(doc) if doc is not None else "")
        children = reversed(list(ast.iter_child_nodes(node)))
        waiting += [(child, scope, in_class) for child in children if isinstance(child, ast.stmt | _Holder)]


# What holds statements without being one.
_Holder = ast.ExceptHandler | ast.match_case


def _block(node: ast.ClassDef | _Function, scope: str, *, in_class: bool) -> Definition:
    kind = "class" if isinstance(node, ast.ClassDef) else "method" if in_class else "function"
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    doc = _own_docstring(node)
    return Definition(
        node.name, scope, kind, first, node.end_lineno or node.lineno, _text(doc) if doc is not None else ""
    )


def _assigned(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Assign):
        targets: list[ast.expr] = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = [node.target]
    elif type(node).__name__ == "TypeAlias":  # a node of Python 3.12 and later
        targets = [getattr(node, "name")]  # noqa: B009 - older versions' ast does not know it
    else:
        return []
    return [target.id for target in targets if isinstance(target, ast.Name) and not target.id.startswith("__")]


def _own_docstring(node: ast.Module | ast.ClassDef | _Function) -> ast.Constant | None:
    return _string(node.body[0]) if node.body else None


def _strings_after(tree: ast.Module) -> dict[int, ast.Constant]:
    return {id(node): doc for node, then in pairwise(tree.body) if (doc := _string(then)) is not None}


def _string(node: ast.stmt) -> ast.Constant | None:
    value = node.value if isinstance(node, ast.Expr) else None
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _text(doc: ast.Constant) -> str:
    assert isinstance(doc.value, str)
    return doc.value[:MAX_DOC_CHARACTERS]
