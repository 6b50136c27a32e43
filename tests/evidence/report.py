"""Prints what every policy makes of the evidence, through a running daemon, as Markdown.

python tests/evidence/report.py [--questions N]
"""

# A script: it prints.
# ruff: noqa: T201

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from broker.telemetry import logs  # noqa: E402
from tests.evidence.cranfield import RUNS, Collection, load  # noqa: E402
from tests.evidence.measures import BUDGETS, Item, mean, ndcg, packed, paired_bootstrap, recall, starved  # noqa: E402
from tests.evidence.replay import POLICIES, Outcome, Recording, outcomes, replaying  # noqa: E402

RERANKERS = frozenset({"lexical"})
Taking = Callable[[Outcome, int], list[Item]]


def by_content(outcome: Outcome, budget: int) -> list[Item]:
    """What the ranking gives when content alone is charged."""
    return packed(outcome.ranking, budget)


def by_prompt(outcome: Outcome, budget: int) -> list[Item]:
    """What stood in the prompt."""
    return outcome.prompts[budget]


class Table:
    """The outcomes of one run, per policy, in the questions' order."""

    def __init__(self, collection: Collection, questions: Sequence[str], outcomes_: dict[str, list[Outcome]]) -> None:
        self._grades = [collection.grades[question] for question in questions]
        self._outcomes = outcomes_

    def recalls(self, policy: str, budget: int, taking: Taking) -> list[float]:
        pairs = zip(self._outcomes[policy], self._grades, strict=True)
        return [recall(taking(outcome, budget), grades) for outcome, grades in pairs]

    def ndcgs(self, policy: str) -> list[float]:
        pairs = zip(self._outcomes[policy], self._grades, strict=True)
        return [ndcg(outcome.ranking, grades) for outcome, grades in pairs]

    def starvations(self, policy: str, budget: int, taking: Taking) -> list[float]:
        pairs = zip(self._outcomes[policy], self._grades, strict=True)
        return [float(starved(taking(outcome, budget), outcome.ranking, grades)) for outcome, grades in pairs]

    def best_prior(self, values: Callable[[str], list[float]]) -> str:
        """The policy that has the highest mean without a reranker."""
        return max((name for name in self._outcomes if name not in RERANKERS), key=lambda name: mean(values(name)))

    def markdown(self) -> str:
        columns = [f"{budget:,}" for budget in BUDGETS]
        lines = []
        for title, taking, ranked in (
            ("Budget charged for content alone", by_content, True),
            ("Budget as `max_tokens`: whole prompt, fences and headers included", by_prompt, False),
        ):
            head = ["policy", *(f"recall@{c}" for c in columns), *(["nDCG@10"] if ranked else [])]
            head += [f"starved@{c}" for c in columns]
            lines += [f"\n**{title}**\n", _row(head), _row(["---"] * len(head))]
            for policy in self._outcomes:
                cells = [mean(self.recalls(policy, budget, taking)) for budget in BUDGETS]
                cells += [mean(self.ndcgs(policy))] if ranked else []
                cells += [mean(self.starvations(policy, budget, taking)) for budget in BUDGETS]
                lines.append(_row([policy, *(f"{cell:.3f}" for cell in cells)]))
        return "\n".join([*lines, *self._comparisons()])

    def _comparisons(self) -> list[str]:
        lines = []
        for reranker in sorted(RERANKERS & self._outcomes.keys()):
            lines += [f"\n**`{reranker}` against the best order without it** (paired bootstrap over questions, 95 %)\n"]
            head = ["measure", "best order", "difference"]
            lines += [_row(head), _row(["---"] * len(head))]
            measures: list[tuple[str, Callable[[str], list[float]]]] = [("nDCG@10", self.ndcgs)]
            for name, taking in (("content", by_content), ("max_tokens", by_prompt)):
                for budget in BUDGETS:
                    measures.append((f"recall@{budget:,} {name}", lambda p, b=budget, t=taking: self.recalls(p, b, t)))
            for name, values in measures:
                best = self.best_prior(values)
                difference = paired_bootstrap(values(reranker), values(best))
                lines.append(_row([name, f"{best} {mean(values(best)):.3f}", str(difference)]))
        return lines


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


async def report(collection: Collection, questions: Sequence[str]) -> None:
    """Replays both runs under every policy and prints the tables."""
    recording = Recording(collection, RUNS[0])
    async with replaying(recording) as client:
        for run in RUNS:
            recording.run = run
            found = {}
            for name, policy in POLICIES.items():
                print(f"{run}: {name}", file=sys.stderr)
                found[name] = await outcomes(client, collection, questions, policy)
            print(f"\n### `{run}`, {len(questions)} questions\n{Table(collection, questions, found).markdown()}")


def main() -> None:
    """Reads the evidence beside the checkout; says where it was looked for when it is not there."""
    parser = argparse.ArgumentParser(description="What every policy makes of the evidence, as Markdown.")
    parser.add_argument("--questions", type=int, help="ask only so many")
    folder = ROOT.parent / "shared" / "evidence" / "cranfield"
    arguments = parser.parse_args()
    if not folder.is_dir():
        sys.exit(f"no evidence in {folder}: there is nothing to replay")
    collection = load(folder)
    logs.configure("error")
    asyncio.run(report(collection, list(collection.questions)[: arguments.questions]))


if __name__ == "__main__":
    main()
