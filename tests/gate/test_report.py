"""A refusal is shown as a table that a person can follow, and as a record that a program can."""

from __future__ import annotations

import json

from broker.gate.report import counterexample_lines, record, verdict_lines
from broker.gate.run import CHECKS, run_gate
from broker.gate.subjects import built_in
from tests.gate import mutants


def test_a_verdict_is_a_row():
    verdicts = [run_gate(built_in("round_robin"), count=4, processes=False), run_gate(mutants.M6, processes=False)]
    heading, first, second = verdict_lines(verdicts)
    assert heading.split() == ["policy", *CHECKS]
    assert first.split() == ["round_robin", *["holds"] * 7]
    assert second.split() == ["M6", "holds", "BROKEN", *["holds"] * 5]


def test_a_counterexample_shows_scores_ranks_and_fates_before_and_after():
    (example,) = run_gate(mutants.M6, processes=False).counterexamples
    lines = list(counterexample_lines(example))
    assert lines[0] == f"T2 is broken: {CHECKS['T2'][0]}"
    assert lines[1].strip() == example.finding.says
    assert lines[2].strip() == f"sample {example.sample.seed}, no limits:"
    heading, *rows = (line.split() for line in lines[3:])
    assert heading == ["provider", "scale", "frame", "bytes", "score", "floor", "rank", "becomes"]
    assert len(rows) == example.sample.size
    assert any("->" in row for row in rows)
    assert all(len(line) < 130 and line == line.rstrip() for line in lines)


def test_limits_and_reasons_are_shown():
    example = next(e for e in run_gate(mutants.M13, processes=False).counterexamples if e.property == "T2")
    text = "\n".join(counterexample_lines(example))
    assert f"max_frames {example.sample.max_frames}" in text
    assert any(row.split()[-2] == "->" for row in text.splitlines()[4:])


def test_what_could_not_be_asked_shows_the_evidence_alone():
    subject = built_in("round_robin")

    def broken(lanes, request, policy):
        raise ZeroDivisionError

    from dataclasses import replace

    verdict = run_gate(replace(subject, composer=broken, origin=""))
    text = "\n".join(counterexample_lines(verdict.counterexamples[0]))
    assert "ZeroDivisionError" in text
    assert "  -     -" in text


def test_a_record_is_json():
    verdict = run_gate(mutants.M5, processes=False)
    made = json.loads(json.dumps(record(verdict), allow_nan=False))
    assert (made["name"], made["passed"]) == ("M5", False)
    assert made["properties"]["T1"] == "broken"
    assert [example["property"] for example in made["counterexamples"]] == ["T1", "T2", "T3"]
    first = made["counterexamples"][0]
    assert {"property", "says", "seed", "before", "after"} == set(first)
    assert first["before"]["lanes"][0]["frames"][0].keys() == {"id", "bytes", "score"}
