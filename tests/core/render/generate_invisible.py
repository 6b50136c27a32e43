"""Writes ``broker/core/render/invisible.py``: which characters are hidden, and beside which a joiner is needed.

Run ``python tests/core/render/generate_invisible.py`` to write the table anew from the running Python's Unicode data.
What that data does not have (small property lists of the Unicode Character Database) stands below with its source file.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from pathlib import Path

TARGET = Path(__file__).resolve().parents[3] / "broker" / "core" / "render" / "invisible.py"


def _expand(text: str) -> frozenset[int]:
    points: set[int] = set()
    for part in text.split():
        first, _, last = part.partition("-")
        points.update(range(int(first, 16), int(last or first, 16) + 1))
    return frozenset(points)


# PropList.txt: Other_Default_Ignorable_Code_Point, Variation_Selector, Prepended_Concatenation_Mark.
OTHER_DEFAULT_IGNORABLE = _expand(
    "34F 115F-1160 17B4-17B5 2065 3164 FFA0 FFF0-FFF8 E0000 E0002-E001F E0080-E00FF E01F0-E0FFF"
)
VARIATION_SELECTOR = _expand("180B-180D 180F FE00-FE0F E0100-E01EF")
PREPENDED_CONCATENATION_MARK = _expand("600-605 6DD 70F 890-891 8E2 110BD 110CD")

# emoji-data.txt: Extended_Pictographic, which holds places for emoji to come.
PICTOGRAPHS = _expand(
    "A9 AE 203C 2049 2122 2139 2194-2199 21A9-21AA 231A-231B 2328 2388 23CF 23E9-23F3 23F8-23FA 24C2 25AA-25AB "
    "25B6 25C0 25FB-25FE 2600-2605 2607-2612 2614-2685 2690-2705 2708-2712 2714 2716 271D 2721 2728 2733-2734 "
    "2744 2747 274C 274E 2753-2755 2757 2763-2767 2795-2797 27A1 27B0 27BF 2934-2935 2B05-2B07 2B1B-2B1C 2B50 "
    "2B55 3030 303D 3297 3299 1F000-1F0FF 1F10D-1F10F 1F12F 1F16C-1F171 1F17E-1F17F 1F18E 1F191-1F19A 1F1AD-1F1E5 "
    "1F201-1F20F 1F21A 1F22F 1F232-1F23A 1F23C-1F23F 1F249-1F3FA 1F400-1F53D 1F546-1F64F 1F680-1F6FF 1F774-1F77F "
    "1F7D5-1F7FF 1F80C-1F80F 1F848-1F84F 1F85A-1F85F 1F888-1F88F 1F8AE-1F8FF 1F90C-1F93A 1F93C-1F945 1F947-1FAFF "
    "1FC00-1FFFD"
)

# Scripts whose letters join or stack, by the first words of their characters' names: cursive ones (ArabicShaping.txt)
# and those with a virama (IndicSyllabicCategory.txt).
JOINING_SCRIPTS = tuple(
    f"{name} "
    for name in (
        "ADLAM", "ARABIC", "BALINESE", "BENGALI", "BRAHMI", "CHAKMA", "CHAM", "DEVANAGARI", "GRANTHA", "GUJARATI",
        "GURMUKHI", "HANIFI ROHINGYA", "JAVANESE", "KAITHI", "KANNADA", "KHMER", "LEPCHA", "LIMBU", "MALAYALAM",
        "MANDAIC", "MANICHAEAN", "MEETEI MAYEK", "MODI", "MONGOLIAN", "MYANMAR", "NEWA", "NKO", "ORIYA", "PHAGS-PA",
        "PSALTER PAHLAVI", "SAURASHTRA", "SHARADA", "SIDDHAM", "SINHALA", "SOGDIAN", "SUNDANESE", "SYRIAC", "TAI THAM",
        "TAMIL", "TELUGU", "TIBETAN", "TIRHUTA",
    )
)  # fmt: skip


def default_ignorable() -> set[int]:
    """Default_Ignorable_Code_Point as DerivedCoreProperties.txt derives it (UAX #44)."""
    formats = {point for point in range(0x110000) if unicodedata.category(chr(point)) == "Cf"}
    shown = PREPENDED_CONCATENATION_MARK | _expand("FFF9-FFFB 13430-13455")
    return (formats | OTHER_DEFAULT_IGNORABLE | VARIATION_SELECTOR) - shown


def hidden() -> set[int]:
    """Characters that are escaped wherever nothing needs them: none of them shows as itself."""
    # Controls but tab, line feed and carriage return, which depend on where they stand; line and paragraph separators;
    # lone surrogates, which UTF-8 cannot hold; interlinear annotation, which hides text.
    others = {p for p in range(0x110000) if unicodedata.category(chr(p)) in {"Cc", "Zl", "Zp", "Cs"}}
    return (default_ignorable() | others | _expand("FFF9-FFFB")) - _expand("9 A D")


def joining() -> set[int]:
    """Letters and marks of the scripts in which a joiner changes what is read."""
    return {
        point
        for point in range(0x110000)
        if unicodedata.category(chr(point))[0] in "LM" and unicodedata.name(chr(point), "").startswith(JOINING_SCRIPTS)
    } - hidden()


def viramas() -> set[int]:
    """Signs after which a joiner is right wherever it stands (RFC 5892, appendix A: canonical combining class 9)."""
    return {point for point in joining() if unicodedata.combining(chr(point)) == 9}


def alike(character: str) -> set[int]:
    """Characters that compatibility decomposition and case folding turn into this one."""
    return {
        point
        for point in range(0x110000)
        if unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", chr(point)).casefold()) == character
    }


def _class(points: Iterable[int]) -> str:
    """The inside of a character class of :mod:`re`."""
    parts: list[str] = []
    run: list[int] = []
    for point in [*sorted(points), -1]:
        if run and point == run[-1] + 1:
            run.append(point)
            continue
        if run:
            first, last = _escape(run[0]), _escape(run[-1])
            parts.append(first if first == last else f"{first}-{last}")
        run = [point]
    return "".join(parts)


def _escape(point: int) -> str:
    return f"\\u{point:04X}" if point < 0x10000 else f"\\U{point:08X}"


def source() -> str:
    """The whole table module."""
    tables = {
        "HIDDEN": ("Characters that do not show as themselves.", hidden()),
        "JOINING": ("Letters and marks of scripts in which joiners are needed.", joining()),
        "VIRAMAS": ("Those of them after which a joiner is right wherever it stands.", viramas()),
        "PICTOGRAPHS": ("Characters that an emoji may be made of.", PICTOGRAPHS),
        "OPENERS": ("Characters that read as '<'.", alike("<")),
        "SLASHES": ("Characters that read as '/'.", alike("/")),
        **{f"LETTER_{c.upper()}": (f"Characters that read as '{c}'.", alike(c)) for c in "frame"},
    }
    lines = [
        '"""Sets of characters, each as the inside of a character class of :mod:`re`.',
        "",
        "Written by ``tests/core/render/generate_invisible.py``; not to be edited.",
        '"""',
        "",
        f'UNIDATA_VERSION = "{unicodedata.unidata_version}"',
    ]
    for name, (meaning, points) in tables.items():
        pieces = [f'r"{piece}"' for piece in _pieces(_class(points))]
        value = pieces if len(pieces) == 1 else ["(", *(f"    {piece}" for piece in pieces), ")"]
        lines += ["", f"{name} = {value[0]}", *value[1:], f'"""{meaning}"""']
    return "\n".join(lines) + "\n"


def _pieces(text: str, width: int = 104) -> Iterable[str]:
    while len(text) > width:
        # Never cut inside an escape.
        cut = text.rfind("\\", 0, width)
        yield text[:cut]
        text = text[cut:]
    yield text


if __name__ == "__main__":
    TARGET.write_text(source())
    sys.stdout.write(f"wrote {TARGET.name} from Unicode {unicodedata.unidata_version}\n")
