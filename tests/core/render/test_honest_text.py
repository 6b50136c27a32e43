"""Honest text stands in every mode's prompt as it came: code, and the scripts, signs and emoji that people write.

What people write and is escaped all the same, since it cannot be told from what hides: zero-width spaces between words
(Khmer, Thai), soft hyphens, joiners at the end of a word, ideographic and Mongolian variation selectors, and flags of
regions, which are made of tag characters.
"""

from __future__ import annotations

import json

import pytest

from broker.core.request import RenderMode
from tests.core.building import composed, frame, lane, row

HONEST = {
    "python": 'def f(x: list[int]) -> str:\n\t"""Doc."""\n\treturn f"{x!r}" if x < y and y > 2 else r"\\d+"  # &c.\n',
    "c++": "#include <vector>\ntemplate <class T> auto f(T&& t) { return t << 1 && !0; }  /* a\\\n b */\n",
    "shell": "for f in *.txt; do sed -i 's/a\\/b/`date`/g' \"$f\" | tee >(cat) && echo $((1<<2)); done\n",
    "html": '<!DOCTYPE html>\n<html lang="de"><body class="a b">&amp;&nbsp;&#38; <br/> <iframe src="x"></iframe>\n',
    "json": '{"a": [1, 2.5e-3, null, "\\u00e9\\n"], "b": {"c": "\\\\"}}',
    "regex": r"^(?:[^\\\"]|\\.)*$ \u200b \x1b[0m ⟦x⟧",
    "latex": r"\begin{align} \frac{a_1^2}{\sqrt{b}} &= \sum_{i=0}^n x_i \\ \end{align} $a$ $$b$$",
    "markdown": "# A\n\n- *b* **c** `d` ~~e~~\n\n> f\n\n[g](http://h) ![i](j)\n\n| k | l |\n|---|---|\n\n~~~\nm\n~~~\n",
    "markdown with fences": "````md\n```python\nx = 1\n```\n````\n",
    "windows lines": "a\r\nb\r\n\r\nc",
    "diff": "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+b\n",
    "arabic": "السَّلامُ عليكم، هذا نصٌّ عربيّ. لا إله ﷲ ١٢٣",
    "persian with joiners": "می\u200cخواهم کتاب\u200cها را بخوانم؛ آمده\u200cاند",
    "urdu, kurdish": "یہ اُردو ہے۔ ده\u200cچم بۆ ماڵ\u200cەوە",
    "hebrew": "בְּרֵאשִׁית בָּרָא אֱלֹהִים — שלום עולם",
    "hindi with joiners": "क्\u200dष क्\u200cष श्री नमस्ते संस्कृतम् ॥ १२३",
    "bengali, tamil, telugu": "র\u200d্যাব ক্\u200cষ தமிழ் ஸ்ரீ తెలుగు క్\u200cష",
    "malayalam, sinhala, kannada": "ന്\u200d അവന്\u200d ශ්\u200dරී ලංකා ක්\u200dෂ ಕನ್ನಡ ರ\u200d್ಯ",
    "thai, khmer, myanmar, tibetan": "ภาษาไทย ភាសាខ្មែរ မြန်မာဘာသာ བོད་ཡིག",
    "chinese, japanese, korean": "漢字と仮名、カタカナ。「引用」『書名』 한국어 ｶﾅ　全角ＡＢＣ！",
    "cyrillic, greek, armenian, georgian": "Съешь ещё Ελληνικά ἀρχή հայերեն ქართული",
    "vietnamese, ipa": "Tiếng Việt tiê\u0301\u0323ng ˈɪŋɡlɪʃ /ʔɔ̃ˑ/",
    "combining": "e\u0301a\u0300n\u0303 Z\u0351\u036b\u0343 å\u0323 q\u0307\u0323",
    "ethiopic, cherokee, n'ko": "አማርኛ ᏣᎳᎩ ߒߞߏ",
    "emoji families": "👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻 🤦🏼\u200d♂\ufe0f 🫱🏻\u200d🫲🏿",
    "emoji with style and joiner": "❤\ufe0f\u200d🔥 👁\ufe0f\u200d🗨\ufe0f",
    "emoji flags": "🇩🇪🇧🇷 🏳\ufe0f\u200d🌈 🏴\u200d☠\ufe0f 🏳\ufe0f\u200d⚧\ufe0f",
    "emoji keycaps": "1\ufe0f\u20e3 #\ufe0f\u20e3 *\ufe0f\u20e3",
    "emoji styles": "☺\ufe0e ☎\ufe0f ™\ufe0f ©\ufe0f ℹ\ufe0f ↔\ufe0f 👍🏿",
    "maths": "∀x∈ℝ: ∑ᵢ xᵢ² ≤ ∫₀^∞ e⁻ˣ dx ⇒ ¬(𝔸 ⊂ 𝔹) ∧ √2 ≈ 1.41 ⟨ψ|φ⟩ ⟦e⟧ 𝑥 𝐟",
    "boxes": "┌──┬──┐\n│ab│░▒▓█│\n╞══╪══╡\n└──┴──┘ ▁▂▃▄ ←↑→↓ ✓✗ ●○",
    "braille, music, runes": "⠓⠑⠇⠇⠕⠀⠺ 𝄞♭♯ ᚠᚢᚦ",
    "punctuation": "“a” ‘b’ «c» „d“ … – — ‐ ‑ a\u00a0b c\u202fd ½ ﬁ № § ¶ † ‽",
    "blanks": "a  b\t\tc   \n\n\n   d",
}  # fmt: skip


@pytest.mark.parametrize("text", HONEST.values(), ids=HONEST)
@pytest.mark.parametrize("mode", RenderMode)
def test_honest_text_is_rendered_as_it_came(mode: RenderMode, text: str):
    composition = composed(lane("a", [frame("x", 0.5, text)]), mode=mode)
    (one,) = composition.placed
    match mode:
        case RenderMode.FENCED:
            assert f">\n{text}\n</frame" in one.rendered
        case RenderMode.MARKDOWN:
            assert f"\n{text}\n```" in one.rendered
        case RenderMode.JSON:
            assert json.loads(one.rendered)["text"] == text
        case RenderMode.NONE:
            assert one.frame.content == text
    told = row(composition, "a", "x")
    assert (told.escaped_characters, told.neutralised_fences) == (0, 0)


@pytest.mark.parametrize("title", [text for text in HONEST.values() if not set(text) & set('<>"\n\r\t')])
@pytest.mark.parametrize("mode", [RenderMode.FENCED, RenderMode.MARKDOWN, RenderMode.JSON])
def test_honest_labels_are_shown_as_they_came(mode: RenderMode, title: str):
    composition = composed(lane("a", [frame("x", 0.5, title=title)]), mode=mode)
    assert composition.citations[0].label == (f"{title} (a/x)" if mode is RenderMode.JSON else title)
