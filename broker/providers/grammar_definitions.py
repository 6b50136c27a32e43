"""Definitions in JavaScript, TypeScript, Go, Rust, Java and C, by tree-sitter and one grammar package for each.

They come with the extra ``symbols``. :func:`installed` says whether a language can be read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

from broker.providers.definitions import MAX_DOC_CHARACTERS, Definition

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_SCRIPT = {
    "function_declaration": "function",
    "generator_function_declaration": "function",
    "function_signature": "function",
    "class_declaration": "class",
    "abstract_class_declaration": "class",
    "method_definition": "method",
    "method_signature": "method",
    "abstract_method_signature": "method",
    "interface_declaration": "interface",
    "type_alias_declaration": "type",
    "enum_declaration": "enum",
    "internal_module": "namespace",
    "variable_declarator": "name",
    "field_definition": "method",
    "public_field_definition": "method",
}
_GO = {
    "function_declaration": "function",
    "method_declaration": "method",
    "type_spec": "type",
    "type_alias": "type",
    "const_spec": "constant",
}
_RUST = {
    "function_item": "function",
    "function_signature_item": "function",
    "struct_item": "struct",
    "enum_item": "enum",
    "union_item": "union",
    "trait_item": "trait",
    "type_item": "type",
    "mod_item": "module",
    "const_item": "constant",
    "static_item": "static",
    "macro_definition": "macro",
}
_JAVA = {
    "class_declaration": "class",
    "interface_declaration": "interface",
    "enum_declaration": "enum",
    "record_declaration": "record",
    "annotation_type_declaration": "annotation",
    "method_declaration": "method",
    "constructor_declaration": "constructor",
}
_C = {
    "function_definition": "function",
    "struct_specifier": "struct",
    "union_specifier": "union",
    "enum_specifier": "enum",
    "type_definition": "type",
    "preproc_def": "macro",
    "preproc_function_def": "macro",
}


@dataclass(frozen=True, slots=True)
class Grammar:
    """One language: the package of its grammar, the package's entry, and node types → kinds of definition."""

    package: str
    entry: str
    kinds: Mapping[str, str]


_JAVASCRIPT = Grammar("tree_sitter_javascript", "language", _SCRIPT)
_TYPESCRIPT = Grammar("tree_sitter_typescript", "language_typescript", _SCRIPT)

GRAMMARS: Mapping[str, Grammar] = {
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), _JAVASCRIPT),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TYPESCRIPT),
    ".tsx": Grammar("tree_sitter_typescript", "language_tsx", _SCRIPT),
    ".go": Grammar("tree_sitter_go", "language", _GO),
    ".rs": Grammar("tree_sitter_rust", "language", _RUST),
    ".java": Grammar("tree_sitter_java", "language", _JAVA),
    **dict.fromkeys((".c", ".h"), Grammar("tree_sitter_c", "language", _C)),
}
"""File suffix → grammar."""

# A variable or field counts as a definition where it holds one of these; at the top of a file, whatever it holds.
_CALLABLE = frozenset({"arrow_function", "function_expression", "generator_function", "class"})
_TOP = frozenset({"program", "export_statement"})
_DECLARATIONS = frozenset({"lexical_declaration", "variable_declaration", "type_declaration", "const_declaration"})
# Inside these nothing is looked for: what a function defines for itself is its own affair.
_CLOSED = frozenset({"function", "method", "constructor", "macro", "constant", "static", "name"})


def installed(suffix: str) -> bool:
    """Whether the grammar for such files is installed."""
    return suffix in GRAMMARS and _parser(suffix) is not None


def grammar_definitions(data: bytes, suffix: str) -> list[Definition]:
    """The definitions of a file, in order; where it does not parse, those of the parts that do.

    Args:
        data: The source, in UTF-8.
        suffix: The file's suffix, one that is :func:`installed`.
    """
    parser = _parser(suffix)
    assert parser is not None
    kinds = GRAMMARS[suffix].kinds
    found = []
    waiting = [(parser.parse(data).root_node, "")]
    while waiting:
        node, scope = waiting.pop()
        name = _name(node) if node.type in kinds and _counts(node) else ""
        inner = scope
        if name:
            kind = kinds[node.type]
            owner = _receiver(node) or scope
            first, doc = _before(node)
            found.append(Definition(name, owner, kind, first + 1, _last_row(node) + 1, doc[:MAX_DOC_CHARACTERS]))
            if kind in _CLOSED:
                continue
            inner = f"{scope}.{name}" if scope else name
        elif node.type == "impl_item":
            inner = _field_text(node, "type") or scope
        waiting += [(child, inner) for child in reversed(node.named_children)]
    return found


@cache
def _parser(suffix: str) -> Parser | None:
    grammar = GRAMMARS[suffix]
    try:
        engine = import_module("tree_sitter")
        package = import_module(grammar.package)
    except ImportError:
        return None
    parser: Parser = engine.Parser(engine.Language(getattr(package, grammar.entry)()))
    return parser


def _counts(node: Node) -> bool:
    if node.type in {"struct_specifier", "union_specifier", "enum_specifier"}:
        return node.child_by_field_name("body") is not None
    if node.type == "preproc_def":
        return node.child_by_field_name("value") is not None  # else it guards a header, and says nothing
    if node.type in {"variable_declarator", "field_definition", "public_field_definition"}:
        value = node.child_by_field_name("value")
        if value is not None and value.type in _CALLABLE:
            return True
        above = node.parent.parent if node.parent is not None else None
        return node.type == "variable_declarator" and above is not None and above.type in _TOP
    return True


def _name(node: Node) -> str:
    named = node.child_by_field_name("name") or node.child_by_field_name("property")
    if named is None:
        # In C the name lies inside the declarator: int *(*name[3])(void).
        named = node.child_by_field_name("declarator")
        while named is not None and (inner := _declared(named)) is not None:
            named = inner
    if named is None or named.named_child_count:
        return ""  # a pattern or a computed name: there is no one name to go by
    return _text(named)


def _declared(node: Node) -> Node | None:
    inner = node.child_by_field_name("declarator")
    if inner is None and node.type == "parenthesized_declarator":
        return node.named_children[0] if node.named_children else None
    return inner


def _receiver(node: Node) -> str:
    receiver = node.child_by_field_name("receiver")
    waiting = [receiver] if receiver is not None else []
    while waiting:
        at = waiting.pop(0)
        if at.type == "type_identifier":
            return _text(at)
        waiting += at.named_children
    return ""


def _before(node: Node) -> tuple[int, str]:
    """The row at which the definition begins, with its comments and attributes, and the comments' text."""
    while node.parent is not None and _wraps(node.parent, node):
        node = node.parent
    first = node.start_point.row
    comments: list[str] = []
    for above in _above(node):
        belongs = "comment" in above.type or above.type == "attribute_item"
        if not belongs or _last_row(above) not in {first - 1, first}:
            break
        previous = above.prev_sibling
        if previous is not None and _last_row(previous) == above.start_point.row and "comment" not in previous.type:
            break  # it stands behind something on that line, and speaks of that
        first = above.start_point.row
        if "comment" in above.type:
            comments.insert(0, _text(above))
    return first, "\n".join(comments)


def _wraps(parent: Node, node: Node) -> bool:
    if parent.type == "export_statement":
        return True
    # A declaration of several names is no one's own.
    return parent.type in _DECLARATIONS and parent.named_children == [node]


def _above(node: Node) -> Iterator[Node]:
    above = node.prev_named_sibling
    while above is not None:
        yield above
        above = above.prev_named_sibling


def _last_row(node: Node) -> int:
    # Some nodes end with their line's end, at the beginning of the next.
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


def _field_text(node: Node, name: str) -> str:
    child = node.child_by_field_name(name)
    return _text(child) if child is not None else ""


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")
