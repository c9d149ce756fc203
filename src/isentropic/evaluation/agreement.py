"""How far do two graders agree, and where do they not?"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from isentropic.evaluation.answers import Answered, Asked
from isentropic.evaluation.grading import CONFIRMED, DOUBTED, NOT_ASKED
from isentropic.runs.files import write_whole

AGREEMENT, DISAGREEMENTS = "agreement.json", "disagreements.jsonl"
TAIL = 2_000  # characters of an answer that are shown


@dataclass(frozen=True)
class Counts:
    """Of the answers that two graders have both judged."""

    both: int
    first: int  # right by the first alone
    second: int  # by the second alone
    neither: int  # by none of the two

    @property
    def answers(self) -> int:
        """How many there are, of all four kinds."""
        return self.both + self.first + self.second + self.neither

    @property
    def agreement(self) -> float:
        """Share of answers on which both say the same, 0 to 1."""
        return (self.both + self.neither) / self.answers

    @property
    def kappa(self) -> float | None:
        """Cohen's (1960): agreement beyond that of chance; None where all are in one class for both, as 0 / 0."""
        first, second = self.both + self.first, self.both + self.second
        chance = first * second + (self.answers - first) * (self.answers - second)  # of answers squared, exactly
        if chance == self.answers**2:
            return None
        return (self.answers * (self.both + self.neither) - chance) / (self.answers**2 - chance)

    def report(self) -> dict[str, int | float | str]:
        """For agreement.json; kappa in words where one class makes it undefined."""
        kappa = "undefined: one class" if self.kappa is None else self.kappa
        return {**asdict(self), "answers": self.answers, "agreement": self.agreement, "kappa": kappa}


@dataclass(frozen=True)
class Agreement:
    """Of one pair, over all answers and by set; `upper` where a grader was not asked about all of them."""

    first: str
    second: str
    all: Counts
    sets: dict[str, Counts]
    upper: dict[str, dict[str, int]]  # by its name: right answers that it confirmed, doubted, was not asked about

    def report(self) -> dict[str, object]:
        """For agreement.json: all answers, then by set."""
        sets = {name: counts.report() for name, counts in self.sets.items()}
        return {"graders": [self.first, self.second], **self.all.report(), "sets": sets, "upper": self.upper}

    def sentence(self) -> str:
        """Share, kappa and who alone calls how many right; what an upper reading confirmed and doubted."""
        kappa = "undefined, as there is one class" if self.all.kappa is None else f"{self.all.kappa:.3f}"
        lines = (
            f"{name} is an upper reading: of right answers it confirmed {found[CONFIRMED]} and doubted {found[DOUBTED]}"
            f", and was not asked about {found[NOT_ASKED]}"
            for name, found in self.upper.items()
        )
        counts = f"only {self.first} {self.all.first}, only {self.second} {self.all.second}"
        said = f"{self.first} and {self.second} agree on {self.all.agreement:.1%} of {self.all.answers:,}"
        return "; ".join([f"{said} answers, kappa {kappa}, {counts}", *lines])


def agreements(answers: Sequence[Answered]) -> list[Agreement]:
    """Of every pair of graders, in their order; of a pair that has judged no answer in common there is none."""
    names = list(dict.fromkeys(name for one in answers for name in one.verdicts))
    pairs = ((pair, [one for one in answers if set(pair) <= one.verdicts.keys()]) for pair in combinations(names, 2))
    return [agreement(*pair, common) for pair, common in pairs if common]


def agreement(first: str, second: str, answers: Sequence[Answered]) -> Agreement:
    """Of two graders on kept answers, together and by set; Cohen's kappa (1960) is computed by Counts."""
    sets = dict.fromkeys(one.set for one in answers)
    by_set = {name: counts(first, second, (one for one in answers if one.set == name)) for name in sets}
    upper: dict[str, dict[str, int]] = {}
    for name in (first, second):
        found = Counter(one.statuses[name] for one in answers)
        if any(found[word] for word in (NOT_ASKED, CONFIRMED, DOUBTED)):
            upper[name] = {word: found[word] for word in (CONFIRMED, DOUBTED, NOT_ASKED)}
    return Agreement(first, second, counts(first, second, answers), by_set, upper)


def counts(first: str, second: str, answers: Iterable[Answered]) -> Counts:
    """The four kinds: both right, only the first, only the second, neither."""
    found = Counter((one.verdicts[first], one.verdicts[second]) for one in answers)
    return Counts(found[True, True], found[True, False], found[False, True], found[False, False])


def disagreements(answers: Sequence[Answered], problems: Sequence[Asked]) -> Iterator[dict[str, object]]:
    """Answers on which any two graders differ, or of which one doubts what is right."""
    asked = {(one.set, one.problem): one for one in reversed(problems)}
    for one in answers:
        if len(set(one.verdicts.values())) > 1 or DOUBTED in one.statuses.values():
            problem = asked[one.set, one.problem]
            yield {
                "set": one.set, "row": problem.row, "problem": one.problem, "child": one.child, "gold": problem.gold,
                "extracted": one.extracted, "verdicts": dict(one.verdicts), "statuses": dict(one.statuses),
                "question": problem.question, "text": one.text[-TAIL:],
            }  # fmt: skip


def write(folder: Path, answers: Sequence[Answered], problems: Sequence[Asked]) -> list[Agreement]:
    """Into `folder`, agreement.json and disagreements.jsonl."""
    found = agreements(answers)
    write_whole(folder / AGREEMENT, json.dumps([one.report() for one in found], indent=2) + "\n")
    lines = (json.dumps(one) + "\n" for one in disagreements(answers, problems))
    write_whole(folder / DISAGREEMENTS, "".join(lines))
    return found
