"""An error speaks of what was typed: every field that a broker may find wrong has its option, with its value."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from broker.cli.question_options import question_options
from broker.cli.typed import COMPOSITIONS, PROVIDE, PUSH, QUERY, in_commands, typed
from broker.core.frames import FrameRef
from broker.core.request import Floor

ASKED = {
    "providers": ("faq", "fqa"),
    "required": ("faq",),
    "pushes": ("late",),
    "floors": (Floor("a", "unit", 0.25), Floor("b", "bm25", -5.0)),
    "inline": (("mine", Path("mine.jsonl")),),
    "weights": (("a", 2.0), ("b", 1.5)),
    "ids": (FrameRef("a", "x"),),
    "anchors": ("file:///a",),
    "as_of": "yesterday",
    "max_tokens": 95,
    "timeout": 0.5,
    "strategy": "precomputed",
    "rerank": "nope",
    "request_id": "r" * 200,
}


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("goal", "GOAL"),
        ("providers[1]", "--provider fqa"),
        ("providers", "--provider"),
        ("providers[9]", "--provider"),
        ("required_providers[0]", "--require faq"),
        ("expect_pushes[0]", "--expect-push late"),
        ("floors[1].scale_id", "--floor b:bm25=-5"),
        ("floors[0].provider_id", "--floor a:unit=0.25"),
        ("inline_lanes[0].frames", "--inline mine"),
        ("inline_lanes[0].scale.min", "--inline-scale of mine"),
        ("anchors[0]", "--anchor file:///a"),
        ("as_of", "--as-of yesterday"),
        ("max_tokens", "--max-tokens 95"),
        ("collect_timeout", "--timeout 0.5"),
        ("strategy", "--strategy precomputed"),
        ("strategy.precomputed.ids[3].provider_id", "--ids or --order"),
        ("strategy.trust_weighted.weights[1].weight", "--weight b=1.5"),
        ("strategy.reciprocal_rank_fusion.k", "--k"),
        ("strategy.plugin.params.depth", "--param"),
        ("rerank.name", "--rerank nope"),
        ("rerank.top_n", "--rerank-top"),
        ("request_id", f"--request-id {'r' * 64}..."),
        ("something_new.of[3]", "something_new.of[3]"),
    ],
)
def test_a_field_of_a_question_is_told_as_its_option(field, told):
    assert typed(field, QUERY, ASKED) == told


@pytest.mark.parametrize(
    ("field", "words", "values", "told"),
    [
        ("provider_id", PUSH, {"provider": "Web"}, "PROVIDER Web"),
        ("request_id", PUSH, {"request_id": "r"}, "REQUEST_ID r"),
        ("scale.id", PUSH, {}, "--scale"),
        ("hello.provider_id", PROVIDE, {"other_name": "X Y"}, "--name X Y"),
        ("tls_ca", PROVIDE, {"tls_ca": Path("ca.pem")}, "--tls-ca ca.pem"),
        ("frame_id", COMPOSITIONS, {"frame_id": "f"}, "--frame f"),
        ("provider_id", COMPOSITIONS, {"provider": "a"}, "--provider a"),
        ("made_from", COMPOSITIONS, {}, "--since"),
    ],
)
def test_the_other_commands_have_words_of_their_own(field, words, values, told):
    assert typed(field, words, values) == told


def test_every_option_that_is_named_exists():
    @click.command()
    @question_options
    def asked(**_: object) -> None:
        """Never run."""

    known = {option for parameter in asked.params for option in parameter.opts}
    known |= {"--address", "--tls-ca", "--tls-cert", "--tls-key", "--token-file", "CONTEXT_BROKER_TOKEN", "GOAL"}
    named = {part for option, _ in QUERY.values() for part in option.split() if part not in ("of", "or")}
    assert named <= known
    parameters = {parameter.name for parameter in asked.params} | {
        "address",
        "tls_ca",
        "tls_cert",
        "tls_key",
        "token_file",
        "",
    }
    assert {name for _, name in QUERY.values()} <= parameters


def test_methods_of_the_contract_become_commands():
    assert in_commands("see ListProviders for the names") == "see `context-broker providers` for the names"
    assert in_commands("see ListStrategies") == "see `context-broker strategies`"
