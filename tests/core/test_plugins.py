"""A plugin sees ranks and no score, can neither lose a frame nor fail a composition, and is named in the audit."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import force_setattr, replace

from broker.core.handles import Handle
from broker.core.plan import rank_lanes
from broker.core.plugins import filled, param_violations, plugin_order, plugin_problem
from broker.core.ranking import round_robin
from broker.core.request import CompositionRequest, Rerank
from broker.core.strategies import Parameter, PluginStrategy, RoundRobin
from tests.core.building import POLICY, composed, lane, ranked


class Plugin:
    """Answers what it was made with."""

    name = "answers"
    version = "2.1"
    description = "Answers what it is told to."
    parameters = (
        Parameter("k", "integer", "60", "A number."),
        Parameter("label", "text", "plain", "A text."),
        Parameter("on", "true or false", "true", "A switch."),
        Parameter("must", "anything", "", "Has no default."),
    )

    def __init__(self, answer=None) -> None:
        self.answer = answer
        self.seen: list[tuple] = []

    def order(self, handles, params):
        self.seen.append((handles, params))
        return self.answer(handles) if callable(self.answer) else self.answer


LANES = (lane("a", {"a1": 0.9, "a2": 0.8}), lane("b", {"b1": 0.2, "b2": 0.1}))
ROUND_ROBIN = ["a1", "b1", "a2", "b2"]


def run(plugin: Plugin, params=None, **request):
    policy = replace(POLICY, plugins={"answers": plugin})
    return composed(*LANES, policy=policy, strategy=PluginStrategy("answers", params or {}), **request)


def test_its_order_is_the_order():
    composition = run(Plugin(lambda handles: [h.index for h in reversed(handles)]))
    assert ranked(composition) == ["b2", "b1", "a2", "a1"]
    assert composition.summary.strategy.repairs == ()


def test_the_record_is_its_own_with_every_default():
    record = run(Plugin([0, 1, 2, 3]), {"k": 5, "must": [1]}).summary.strategy
    assert (record.name, record.version, record.compares_raw_scores) == ("answers", "2.1", False)
    assert record.params == {"k": 5, "label": "plain", "must": [1], "on": True}


def test_it_gets_what_the_record_says_and_handles_alone():
    plugin = Plugin([0, 1, 2, 3])
    composition = run(plugin, {"k": 5})
    ((handles, params),) = plugin.seen
    assert params == composition.summary.strategy.params == {"k": 5, "label": "plain", "on": True}
    assert isinstance(handles, tuple)
    assert {type(handle) for handle in handles} == {Handle}


@pytest.mark.parametrize(
    "error",
    [
        ValueError("0.9"),
        KeyError("secret"),
        RecursionError(),
        StopIteration(),
        MemoryError(),
        SystemExit(3),
        asyncio.CancelledError(),
    ],
)
def test_what_it_raises_becomes_round_robin_and_is_told_by_type_alone(error: BaseException):
    def fail(handles):
        raise error

    composition = run(Plugin(fail))
    assert ranked(composition) == ROUND_ROBIN
    assert composition.summary.strategy.repairs == (
        f"round robin stands in: the plugin failed with {type(error).__name__}",
    )


def test_who_ends_the_program_is_heard():
    def interrupted(handles):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Plugin(interrupted))


@pytest.mark.parametrize("fails", [False, True])
def test_what_it_writes_to_its_handles_moves_nothing_else(fails: bool):
    def scribble(handles):
        for handle in handles:
            force_setattr(handle, "index", 10**6)
            force_setattr(handle, "local_rank", -handle.local_rank)
        if fails:
            raise ValueError
        return [0, 1, 2, 3]

    request = CompositionRequest(max_tokens=10_000, strategy=PluginStrategy("answers"), rerank=Rerank("any"))
    plan = rank_lanes(LANES, request, replace(POLICY, plugins={"answers": Plugin(scribble)}))
    order = ROUND_ROBIN if fails else ["a1", "a2", "b1", "b2"]
    assert [one.handle.frame_id for one in plan.candidates] == [entry.ref.frame_id for entry in plan.ranked] == order
    assert sorted(one.handle.index for one in plan.candidates) == [0, 1, 2, 3]
    assert {one.handle.local_rank for one in plan.candidates} == {1, 2}


def test_what_it_writes_to_its_parameters_is_gone_with_the_request():
    class Scribbler(Plugin):
        def order(self, handles, params):
            params["must"]["deep"].append(len(params["must"]["deep"]))
            self.seen.append(params["must"]["deep"])
            return [0, 1, 2, 3]

    plugin, params = Scribbler(), {"must": {"deep": [0]}}
    assert run(plugin, params).summary.strategy.params["must"] == {"deep": [0]}
    run(plugin, params)
    assert plugin.seen == [[0, 1], [0, 1]]
    assert params == {"must": {"deep": [0]}}


@pytest.mark.parametrize("answer", [None, 7, object()])
def test_an_answer_that_is_no_list_is_a_failure(answer: object):
    assert "failed with TypeError" in run(Plugin(answer)).summary.strategy.repairs[0]


@pytest.mark.parametrize(
    ("answer", "order", "repairs"),
    [
        ([], ROUND_ROBIN, ["appended 4 that were left out, in round-robin order"]),
        ([3, 3, 1], ["b2", "a2", "a1", "b1"], ["skipped 1 that came again", "appended 2 that were left out"]),
        ([9, -1, "0", None, 1.0, True, 0, 1, 2, 3], ["a1", "a2", "b1", "b2"], ["skipped 6 that name no frame"]),
    ],
)
def test_a_faulty_order_is_repaired_and_told(answer: list, order: list[str], repairs: list[str]):
    composition = run(Plugin(answer))
    assert sorted(ranked(composition)) == sorted(ROUND_ROBIN)
    assert ranked(composition)[:2] == order[:2]
    for repair in repairs:
        assert any(said.startswith(repair) for said in composition.summary.strategy.repairs)


def test_an_answer_without_end_is_not_read_to_it():
    composition = run(Plugin(lambda handles: iter(lambda: 0, 1)))
    assert ranked(composition)[0] == "a1"
    assert composition.summary.strategy.repairs[0] == "skipped 8 that came again"


def test_whole_numbers_of_other_types_are_indices():
    class Number:
        def __init__(self, value: int) -> None:
            self.value = value

        def __index__(self) -> int:
            return self.value

    composition = run(Plugin(lambda handles: [Number(h.index) for h in reversed(handles)]))
    assert ranked(composition) == ["b2", "b1", "a2", "a1"]
    assert composition.summary.strategy.repairs == ()


@given(st.lists(st.integers(-2, 6) | st.none() | st.text(max_size=2) | st.floats(), max_size=12))
def test_whatever_it_answers_no_frame_is_lost(answer: list):
    composition = run(Plugin(answer))
    assert sorted(ranked(composition)) == sorted(ROUND_ROBIN)
    assert sorted(row.rank for row in composition.audit) == [1, 2, 3, 4]


def test_local_ranks_and_everything_but_the_order_are_as_under_any_policy():
    backwards = run(Plugin(lambda handles: [h.index for h in reversed(handles)]))
    plain = composed(*LANES, strategy=RoundRobin())
    assert {(r.frame_id, r.local_rank, r.cost) for r in backwards.audit} == {
        (r.frame_id, r.local_rank, r.cost) for r in plain.audit
    }


def test_a_plugin_that_is_not_there_is_a_fault_of_the_caller():
    with pytest.raises(KeyError):
        composed(*LANES, strategy=PluginStrategy("nobody"))


def test_its_answer_is_read_before_it_is_judged():
    plugin = Plugin(lambda handles: (h.index for h in handles))
    handles = [Handle(0, "a", "x", 0, 1, (("a", 1),), (), 5, "doc", "")]
    assert plugin_order(plugin, handles, {}) == ([0], ())
    assert plugin_order(Plugin(None), handles, {})[0] == round_robin(handles)


# --- parameters


def test_defaults_are_values_where_they_are_json_and_texts_where_not():
    plugin = Plugin()
    plugin.parameters = tuple(
        Parameter(name, "", default, "")
        for name, default in (("a", "0.5"), ("b", "[1, 2]"), ("c", "NaN"), ("d", "1e999"), ("e", "1,000"), ("f", ""))
    )
    assert filled(plugin, {}) == {"a": 0.5, "b": [1, 2], "c": "NaN", "d": "1e999", "e": "1,000"}


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"min_score": 0.5}, "answers declares no parameter 'min_score'; it takes k, label, on, must"),
        ({"k": "5"}, "expected a number (integer)"),
        ({"k": True}, "expected a number"),
        ({"k": None}, "expected a number"),
        ({"label": 5}, "expected a text"),
        ({"on": 1}, "expected true or false"),
        ({"k": math.nan}, "not finite"),
        ({"must": {"deep": [1, {"x": -math.inf}]}}, "not finite"),
    ],
)
def test_a_parameter_that_it_does_not_take_is_a_violation(params: dict, says: str):
    (violation,) = param_violations(Plugin(), params, "strategy.plugin.params")
    assert violation.reason == "STRATEGY_PARAMS"
    assert violation.field == f"strategy.plugin.params.{next(iter(params))}"
    assert says in violation.message


def test_what_it_takes_is_none():
    for params in ({}, {"k": 0}, {"k": 0.5}, {"label": "", "on": False}, {"must": None}, {"must": [{}]}):
        assert param_violations(Plugin(), params, "p") == []


# --- what is one


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": "other"}, "calls itself 'other'"),
        ({"version": ""}, "version is no text"),
        ({"version": 1}, "version is no text"),
        ({"version": "1" * 65}, "version is no text"),
        ({"description": ""}, "description is no text"),
        ({"parameters": []}, "no tuple"),
        ({"parameters": ("k",)}, "no tuple"),
        ({"parameters": Plugin.parameters[:1] * 2}, "two of its parameters"),
        ({"parameters": (Parameter("k", "integer", 60, "A number."),)}, "are texts, and one of them is none"),
        ({"order": 5}, "cannot be called"),
    ],
)
def test_what_is_no_plugin_says_why(change: dict, says: str):
    plugin = Plugin()
    assert plugin_problem(plugin, "answers") is None
    vars(plugin).update(change)
    assert says in plugin_problem(plugin, "answers")


def test_an_attribute_that_raises_is_no_plugins():
    class Moody(Plugin):
        @property
        def description(self):
            raise RuntimeError("not today")

    assert plugin_problem(Moody(), "answers") == "its attributes cannot be read: RuntimeError: not today"


@pytest.mark.parametrize("name", ["", "Answers", "1st", "a b", "a" * 64, "round_robin", "score_descending", "a\n"])
def test_a_name_is_one_that_can_be_written_and_is_free(name: str):
    plugin = Plugin()
    plugin.name = name
    assert plugin_problem(plugin, name) is not None


def test_what_is_missing_is_named():
    assert plugin_problem(object(), "answers") == "it has no name, version, description, parameters, order"
