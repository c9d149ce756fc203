"""How a paper evaluates: its sets, answers of each problem, decoding, prompt and graders, as data."""

import re
from dataclasses import dataclass, replace
from typing import Literal

from isentropic.sampler import Decoding

NAMED = re.compile(r"([a-z]\w*)(?:\[([1-9]\d*)\])?", re.IGNORECASE)
SCORE = re.compile(r"avg|maj|pass(?:@([1-9]\d*))?")


@dataclass(frozen=True)
class Exam:
    """Sets that are asked in the same way. Raises ValueError for what cannot be asked."""

    sets: list[str]  # each scored apart; math500[100] is the first 100 problems
    count: int  # answers of each problem
    decoding: Decoding

    def __post_init__(self) -> None:
        if not self.sets:
            raise ValueError("an exam has no sets; name one, as in sets=[aime24]")
        for name in self.sets:
            parsed(name)
        if self.count < 1:
            raise ValueError(f"count={self.count} answers of each problem is not at least 1")
        if self.decoding.greedy and self.count > 1:
            raise ValueError(
                f"count={self.count} answers at temperature=0 would all be the same; take count=1, or a temperature"
            )


@dataclass(frozen=True)
class Protocol:
    """Raises ValueError for parts that contradict each other."""

    name: str
    source: str  # paper, section or script
    grade: Literal["A", "B", "C", "?"]  # A read in code or full text, B in an author's readme, C second hand
    template: str | None  # the prompt, with {question} for the question; None is the problem's own
    chat: bool  # the prompt is a user's message
    system: str | None  # message before it
    exams: dict[str, Exam]
    graders: list[str]  # the first decides; the others are compared with it
    scores: list[str]  # avg, pass, pass@8, maj
    assumed: dict[str, str]  # what the source does not say, and why it is as it is here
    says: str | None  # what is to be known of the published numbers
    turns: int  # of an answer; more than one with tools between them
    only: list[str] | None  # of the sets; None is all

    def __post_init__(self) -> None:
        if self.template is not None and "{question}" not in self.template:
            raise ValueError(f"template={self.template!r} has no {{question}}, and every prompt would be the same")
        if self.system is not None and not self.chat:
            raise ValueError(f"system={self.system!r:.40} is for a chat, and chat=false is plain text")
        if not self.graders:
            raise ValueError("graders=[] leaves no one to judge the answers")
        if not self.exams or self.only == []:
            raise ValueError(f"{'exams={}' if not self.exams else 'only=[]'} leaves no set to be asked")
        names = [name for exam in self.exams.values() for name in exam.sets]
        bases = [parsed(name)[0] for name in names]
        if again := next((name for name in bases if bases.count(name) > 1), None):
            raise ValueError(f"the set {again} is in two exams, and its answers could not be told apart")
        for name in self.only or ():
            if name not in names and name not in bases:
                raise ValueError(f"only=[{name}] is no set of {self.name}; there are {', '.join(names)}")
        self.check_scores()

    def check_scores(self) -> None:
        """Raises ValueError for a score of unknown name, or for pass@K of more answers than a problem gets."""
        for score in self.scores:
            match = SCORE.fullmatch(score)
            if not match:
                raise ValueError(f"scores has {score!r}, which is none of avg, pass, pass@K, maj")
            for name, exam in self.exams.items():
                if match[1] and int(match[1]) > exam.count:
                    raise ValueError(
                        f"{score} needs {match[1]} answers of each problem, and exams.{name}.count={exam.count}"
                    )

    def chosen(self) -> dict[str, Exam]:
        """Exams with the sets of `only` alone."""
        if self.only is None:
            return self.exams
        kept = {
            key: [name for name in exam.sets if name in self.only or parsed(name)[0] in self.only]
            for key, exam in self.exams.items()
        }
        return {key: replace(self.exams[key], sets=sets) for key, sets in kept.items() if sets}

    def sentences(self) -> list[str]:
        """What is said before it is run."""
        lines = [f"protocol {self.name}: {self.source} (grade {self.grade})"]
        lines += [f"  assumed, as the source does not say it: {key}: {why}" for key, why in self.assumed.items()]
        return [*lines, f"  note: {self.says}"] if self.says else lines


def parsed(name: str) -> tuple[str, int | None]:
    """A set's own name, and how many of its problems are asked: math500[100]. Raises ValueError for what is neither."""
    match = NAMED.fullmatch(name)
    if not match:
        raise ValueError(f"{name!r} is no set; write its name, or name[100] for its first 100 problems")
    return match[1], int(match[2]) if match[2] else None
