"""Definitions in other languages are found where they stand, with the comment that explains them."""

from __future__ import annotations

import random

import pytest

from broker.providers import grammar_definitions as module
from broker.providers.grammar_definitions import GRAMMARS, grammar_definitions, installed

WITHOUT = [suffix for suffix in GRAMMARS if not installed(suffix)]
needs_extra = pytest.mark.skipif(
    bool(WITHOUT), reason=f"the extra 'symbols' is not installed: no grammar for {WITHOUT}"
)

JAVASCRIPT = """// loads it
export async function load(url) { function inner() {} }
export default class Store extends Base {
  /** keeps it */
  put(key) {}
  static #hidden() {}
  handler = () => 1;
  count = 0;
}
const arrow = (a) => a;
export const LIMIT = 3, other = 4;
const { a, b } = arrow;
(function () { const local = 1; function wrapped() {} })();
"""
TYPESCRIPT = """export interface Shape { area(): number }
export abstract class Base<T> { abstract run(): void; go(x: T): void {} }
type Pair = [number, number];
enum Color { Red }
namespace Inner { export function q(): void {} }
export function f(a: string): void;
"""
GO = """package a

// Rank orders frames.
// It is stable.
func Rank(x []int) {}

func (l *Lane[T]) Take() {}
type (
	Lane struct{ n int }
	Alias = int
)
const Limit = 3
"""
RUST = """/// A lane.
#[derive(Debug)]
pub struct Lane;
impl Lane {
    /// Takes one.
    pub fn take(&self) {}
}
impl<T> Show for Wrap<T> { fn show(&self) {} }
trait Show { fn show(&self); }
mod inner { pub enum E { A } }
const MAX: u8 = 1;
macro_rules! twice { () => {} }
"""
JAVA = """/** A lane. */
@Deprecated
public class Lane {
  Lane() {}
  /** Takes one. */
  @Override public void take() {}
  record Pair(int a) {}
  enum Kind { A }
  interface Sink { void put(); }
}
"""
C = """#define LANE_H
/* Adds. */
static int *add(int a) { return 0; }
struct lane { int n; };
struct lane *forward(void);
typedef struct { int y; } pair_t;
typedef int (*callback)(int);
#define LIMIT 3
#define TWICE(x) ((x) * 2)
enum kind { A };
"""

EXPECTED = {
    ".js": (
        JAVASCRIPT,
        [
            ("function", "load", 1, 2),
            ("class", "Store", 3, 9),
            ("method", "Store.put", 4, 5),
            ("method", "Store.#hidden", 6, 6),
            ("method", "Store.handler", 7, 7),
            ("name", "arrow", 10, 10),
            ("name", "LIMIT", 11, 11),
            ("name", "other", 11, 11),
            ("function", "wrapped", 13, 13),
        ],
    ),
    ".ts": (
        TYPESCRIPT,
        [
            ("interface", "Shape", 1, 1),
            ("method", "Shape.area", 1, 1),
            ("class", "Base", 2, 2),
            ("method", "Base.run", 2, 2),
            ("method", "Base.go", 2, 2),
            ("type", "Pair", 3, 3),
            ("enum", "Color", 4, 4),
            ("namespace", "Inner", 5, 5),
            ("function", "Inner.q", 5, 5),
            ("function", "f", 6, 6),
        ],
    ),
    ".go": (
        GO,
        [
            ("function", "Rank", 3, 5),
            ("method", "Lane.Take", 7, 7),
            ("type", "Lane", 9, 9),
            ("type", "Alias", 10, 10),
            ("constant", "Limit", 12, 12),
        ],
    ),
    ".rs": (
        RUST,
        [
            ("struct", "Lane", 1, 3),
            ("function", "Lane.take", 5, 6),
            ("function", "Wrap<T>.show", 8, 8),
            ("trait", "Show", 9, 9),
            ("function", "Show.show", 9, 9),
            ("module", "inner", 10, 10),
            ("enum", "inner.E", 10, 10),
            ("constant", "MAX", 11, 11),
            ("macro", "twice", 12, 12),
        ],
    ),
    ".java": (
        JAVA,
        [
            ("class", "Lane", 1, 10),
            ("constructor", "Lane.Lane", 4, 4),
            ("method", "Lane.take", 5, 6),
            ("record", "Lane.Pair", 7, 7),
            ("enum", "Lane.Kind", 8, 8),
            ("interface", "Lane.Sink", 9, 9),
            ("method", "Lane.Sink.put", 9, 9),
        ],
    ),
    ".c": (
        C,
        [
            ("function", "add", 2, 3),
            ("struct", "lane", 4, 4),
            ("type", "pair_t", 6, 6),
            ("type", "callback", 7, 7),
            ("macro", "LIMIT", 8, 8),
            ("macro", "TWICE", 9, 9),
            ("enum", "kind", 10, 10),
        ],
    ),
}


@needs_extra
@pytest.mark.parametrize("suffix", EXPECTED)
def test_definitions_have_kind_name_and_lines(suffix: str):
    source, expected = EXPECTED[suffix]
    found = grammar_definitions(source.encode(), suffix)
    assert [(d.kind, d.qualified, d.first, d.last) for d in found] == expected


@needs_extra
@pytest.mark.parametrize(
    ("suffix", "name", "doc"),
    [
        (".js", "load", "// loads it"),
        (".js", "put", "/** keeps it */"),
        (".go", "Rank", "// Rank orders frames.\n// It is stable."),
        (".rs", "Lane", "/// A lane.\n"),
        (".rs", "take", "/// Takes one.\n"),
        (".java", "take", "/** Takes one. */"),
        (".c", "add", "/* Adds. */"),
        (".c", "lane", ""),
    ],
)
def test_the_comment_before_a_definition_is_its_doc(suffix: str, name: str, doc: str):
    found = grammar_definitions(EXPECTED[suffix][0].encode(), suffix)
    assert next(d.doc for d in found if d.name == name) == doc


@needs_extra
def test_a_comment_that_stands_apart_or_behind_something_else_is_none_of_its():
    found = grammar_definitions(
        b"int x; // about x\nint f(void) { return 0; }\n\n/* apart */\n\nint g(void) { return 0; }\n", ".c"
    )
    assert [(d.name, d.first, d.doc) for d in found] == [("f", 2, ""), ("g", 6, "")]


@needs_extra
@pytest.mark.parametrize("suffix", GRAMMARS)
def test_broken_source_gives_what_parses_and_never_fails(suffix: str):
    source = EXPECTED[
        {".tsx": ".ts", ".h": ".c"}.get(suffix, suffix) if suffix in {*EXPECTED, ".tsx", ".h"} else ".js"
    ][0]
    dice = random.Random(suffix)
    data = source.encode()
    for _ in range(60):
        broken = bytearray(data)
        for _ in range(dice.randrange(1, 6)):
            at = dice.randrange(len(broken))
            broken[at : at + dice.randrange(8)] = dice.choice([b"", b"{", b")", b"\xff", b"/*", "é".encode()])
        lines = broken.count(b"\n") + 1
        for definition in grammar_definitions(bytes(broken), suffix):
            assert 1 <= definition.first <= definition.last <= lines
            assert definition.name


@needs_extra
def test_deep_nesting_is_no_recursion():
    grammar_definitions(b"int f() " + b"{" * 20_000, ".c")
    found = grammar_definitions(b"class A {" * 3_000 + b"void m() {}" + b"}" * 3_000, ".java")
    assert len(found) == 3_001
    assert found[0].name == "A"


def test_a_language_without_its_grammar_is_known_not_to_be_read(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str):
        raise ImportError(name)

    module._parser.cache_clear()
    monkeypatch.setattr(module, "import_module", missing)
    try:
        assert not any(installed(suffix) for suffix in GRAMMARS)
        assert not installed(".cobol")
    finally:
        module._parser.cache_clear()
