"""What a request says of its composition comes back as it was; what contradicts itself is refused."""

from __future__ import annotations

import pytest
from contextbroker.v1 import context_service_pb2 as pb
from hypothesis import given
from msgspec.structs import replace

from broker.core.request import CompositionRequest
from broker.core.strategies import RoundRobin
from broker.errors import InvalidArgument
from broker.wire.composition_requests import composition_fields, read_composition_request
from tests.wire import values


@given(values.requests)
def test_it_comes_back_as_it_was_but_for_what_the_call_names(request: CompositionRequest):
    message = pb.ComposeRequest(**{name: value() for name, value in composition_fields(request).items()})
    back = read_composition_request(pb.ComposeRequest.FromString(message.SerializeToString()))
    assert back == replace(request, strategy=RoundRobin(), tokenizer="bytes/4")


def test_nothing_said_is_the_contracts_defaults():
    assert read_composition_request(pb.ComposeRequest(max_tokens=7)) == CompositionRequest(max_tokens=7)


def test_a_prompt_of_no_tokens_at_all_may_fold():
    assert read_composition_request(pb.ComposeRequest(fold_min_tokens=0)).fold_min_tokens == 0


@pytest.mark.parametrize("mode", [pb.RENDER_MODE_JSON, pb.RENDER_MODE_NONE])
def test_a_question_has_no_place_where_the_output_is_data_alone(mode: int):
    render = pb.RenderOptions(mode=mode, restate_question=True)
    with pytest.raises(InvalidArgument) as error:
        read_composition_request(pb.ComposeRequest(goal="g", render=render))
    assert [(v.field, v.reason) for v in error.value.violations] == [("render.restate_question", "RESTATE_QUESTION")]
    render.restate_question = False
    assert read_composition_request(pb.ComposeRequest(goal="g", render=render)).question == ""


@pytest.mark.parametrize("factor", [5e-324, 0.999])
def test_a_factor_that_would_raise_the_budget_is_refused(factor: float):
    with pytest.raises(InvalidArgument) as error:
        read_composition_request(pb.ComposeRequest(goal="g", safety_factor=factor))
    assert [(v.field, v.reason) for v in error.value.violations] == [("safety_factor", "SAFETY_FACTOR")]
