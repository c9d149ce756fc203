"""What is asked, under which name and with which seeds."""

from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from transformers import AutoTokenizer

from isentropic.evaluation.protocol import Exam
from isentropic.evaluation.questions import asked_set, of_rows, of_task, seed_of
from isentropic.rollout.prompts import PromptEncoder
from isentropic.sampler import Decoding
from isentropic.task.countdown import Countdown

DECODING = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=8, stop=None)


@dataclass
class Table:
    """Rows in memory, as a set reads them from its file."""

    questions: list[str]
    keys: list[str] = field(default_factory=list)

    def read(self, key):
        self.keys.append(key)
        return [SimpleNamespace(question=text, answer="1", before=(), columns={}) for text in self.questions]


def encoder(path):
    return PromptEncoder(AutoTokenizer.from_pretrained(path), False, None, [], {})


def test_fewer_problems_than_the_set_has_stand_in_its_name():
    table = Table(["1+1", "2+2", "3+3"])
    assert [of_rows(name, table, None)[0] for name in ("sums", "sums[2]", "sums[3]")] == ["sums", "sums[2]", "sums"]
    assert [one.text for one in of_rows("sums[2]", table, None)[1]] == ["1+1", "2+2"] and table.keys[0] == "sets.sums"
    with pytest.raises(ValueError, match=r"sums\[4\] asks for 4 problems, and sums has 3"):
        of_rows("sums[4]", table, None)


def test_the_template_is_around_the_question_and_graders_see_the_question():
    (one,) = of_rows("sums", Table(["1+1"]), "{question}=")[1]
    assert (one.problem.prompt, one.text, one.gold) == ("1+1=", "1+1", "1")


def test_an_endless_task_must_say_how_many():
    task = Countdown(numbers=3, largest=9, limit=99, held_out=0.1, seed=0)
    name, questions = of_task("countdown[5]", task, "test")
    assert name == "countdown[5]" and [one.problem for one in questions] == task.problems("test")[:5]
    assert questions[0].gold == str([[*questions[0].problem.reference[0]], questions[0].problem.reference[1]])
    with pytest.raises(ValueError, match=r"say how many, as in countdown\[256\]"):
        of_task("countdown", task, "test")


def test_a_problem_that_a_set_has_twice_is_asked_twice(tiny_model):
    _, questions = of_rows("sums", Table(["1+1", "2+2", "1+1"]), "{question}=")
    one = asked_set("sums", questions, Exam(["sums"], 2, DECODING), encoder(tiny_model), None)
    hashes = [asked.problem for asked in one.asked]
    assert len(set(hashes)) == 3 and all(len(name) == 16 and int(name, 16) >= 0 for name in hashes)
    assert one.asked[0].prompt_hash == one.asked[2].prompt_hash != one.asked[1].prompt_hash
    assert (one.asked[0].prompt, one.asked[0].prompt_tokens, one.answers, one.longest) == ("1+1=", 4, 6, 4)
    again = asked_set("sums", questions[:1], Exam(["sums"], 2, DECODING), encoder(tiny_model), None)
    assert again.asked == one.asked[:1]


def test_the_template_s_end_token_ends_answers_unless_the_protocol_has_its_own(tiny_model):
    _, questions = of_rows("sums", Table(["1+1"]), None)
    own = Exam(["sums"], 1, Decoding(1.0, 1.0, 0, 0.0, 8, stop=";"))
    for exam, stop in ((Exam(["sums"], 1, DECODING), ","), (own, ";")):
        assert asked_set("sums", questions, exam, encoder(tiny_model), ",").decoding.stop == stop


def test_seeds_are_of_the_problem_and_the_child_alone():
    seeds = {seed_of(0, "aime24", f"{problem:016x}", child) for problem in range(50) for child in range(64)}
    assert len(seeds) == 3200 and all(0 <= seed < 2**56 for seed in seeds)
    assert seed_of(0, "aime24", "a", 3) == seed_of(0, "aime24", "a", 3) == 1922264449580877
    assert (
        len({seed_of(0, "a", "b", 1), seed_of(1, "a", "b", 1), seed_of(0, "c", "b", 1), seed_of(0, "a", "d", 1)}) == 4
    )
