"""Role tokens: marks by which common chat formats tell whose turn it is, or where a text ends.

In a content they are data and stay as they are: a model's own tokenizer must not read them as such, and how many there
are is told in the audit. Nothing is claimed of a content that has none. Sources: the models' tokenizer configurations
and chat templates, as their makers publish them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

FORMATS: Mapping[str, tuple[str, ...]] = {
    "ChatML": ("<|im_start|>", "<|im_end|>", "<|im_sep|>"),
    "GPT": ("<|endoftext|>", "<|endofprompt|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"),
    "Harmony": (
        "<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>",
        "<|startoftext|>",
    ),
    "Llama 2": ("<s>", "</s>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"),
    "Llama 3": (
        "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>",
        "<|python_tag|>",
    ),
    "Llama 4": ("<|header_start|>", "<|header_end|>", "<|eot|>", "<|eom|>"),
    "Mistral": (
        "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]",
        "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]",
    ),
    "Gemma": ("<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"),
    "Phi": ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|tool_call|>", "<|tool_response|>"),
    "Qwen": ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<|endoftext|>"),
    "DeepSeek": (
        "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁outputs▁begin｜>",
        "<｜tool▁outputs▁end｜>", "<｜tool▁sep｜>",
    ),
    "Command R": (
        "<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|SYSTEM_TOKEN|>", "<|USER_TOKEN|>", "<|CHATBOT_TOKEN|>",
        "<BOS_TOKEN>", "<EOS_TOKEN>",
    ),
    "GLM": ("[gMASK]", "<sop>", "<eop>", "<|observation|>"),
    "Granite": ("<|start_of_role|>", "<|end_of_role|>"),
}  # fmt: skip
"""Tokens by the format that has them, each as it is written; some formats share some."""

TURNS = ("Human:", "Assistant:")
"""Words that begin a turn behind a blank line, or where the content begins, as in the prompts of early Claude."""


def _any_of(opening: str) -> re.Pattern[str]:
    """What finds every token that begins with a character. Their second character comes first: it rules most out."""
    endings = defaultdict(list)
    for token in sorted({token for tokens in FORMATS.values() for token in tokens}):
        if token.startswith(opening):
            endings[token[1]].append(re.escape(token[2:]))
    choices = (f"{re.escape(second)}(?:{'|'.join(rest)})" for second, rest in endings.items())
    return re.compile(f"{re.escape(opening)}(?:{'|'.join(choices)})")


_ANGLED, _BRACKETED = _any_of("<"), _any_of("[")
_TURN = re.compile(rf"\n\r?\n(?:{'|'.join(map(re.escape, TURNS))})")


def role_tokens(content: str) -> int:
    """How many role tokens stand in a content, none counted twice. The time is linear in the content."""
    return role_tokens_of((content,))[0]


def role_tokens_of(contents: Iterable[str]) -> list[int]:
    """:func:`role_tokens` of each content."""
    # Most contents have none of what a token needs; that is told in a tenth of a pattern's time.
    return [
        (len(_ANGLED.findall(content)) if "<" in content else 0)
        + (len(_BRACKETED.findall(content)) if "[" in content else 0)
        + (content.startswith(TURNS) + len(_TURN.findall(content)) if ":" in content else 0)
        for content in contents
    ]
