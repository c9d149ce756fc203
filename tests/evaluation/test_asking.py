"""Answers are kept batch by batch, none is asked twice, and no answer depends on how many there are."""

import pytest
from transformers import AutoTokenizer

from isentropic.evaluation.answers import ANSWERS, read_answers
from isentropic.evaluation.asking import Asking
from isentropic.evaluation.by_task import ByTask
from isentropic.evaluation.protocol import Exam
from isentropic.evaluation.questions import asked_set, of_task
from isentropic.rollout.prompts import PromptEncoder
from isentropic.sampler import Decoding
from isentropic.sampler.hf import TransformersSampler
from isentropic.task.arithmetic import Arithmetic

DECODING = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=6, stop=None)


@pytest.fixture(scope="module")
def sampler(tiny_model):
    sampler = TransformersSampler(tiny_model, dtype="float32", device="cpu", max_model_len=64, max_num_seqs=64)
    sampler.start()
    return sampler


@pytest.fixture
def asking(sampler, tiny_model, tmp_path):
    """What asks in a folder, and a set of so many problems and answers each."""
    task = Arithmetic(pattern="1..9+1..9", template="{question}=", marker="", held_out=0.2, seed=0)
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    encoder = PromptEncoder(tokenizer, False, None, [], {})

    def make(count, problems=3, folder="one", batch=4, seed=0):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        name, questions = of_task(f"sums[{problems}]", task, "test")
        one = asked_set(name, questions, Exam([name], count, DECODING), encoder, None)
        graders = {name: {"task": ByTask("task", task, {each.text: each.problem for each in questions})}}
        said = []
        return Asking(place, sampler, tokenizer, graders, seed, batch, said.append), one, said

    return make


def kept(asking):
    return {(one.problem, one.child): (one.seed, one.text) for one in read_answers(asking.folder)}


def test_every_problem_has_its_answers_judged_and_progress_is_told(asking):
    many, one, said = asking(5)
    many.ask([one])
    answers = read_answers(many.folder)
    assert [(each.set, each.problem, each.child) for each in answers] == [
        ("sums[3]", asked.problem, child) for asked in one.asked for child in range(5)
    ]
    assert {each.finish for each in answers} <= {"stop", "length"} and all(0 < each.tokens <= 6 for each in answers)
    assert all((each.status == "right") == each.right == each.verdicts["task"] for each in answers)
    assert [line.partition(" answers")[0] for line in said] == [f"sums[3]: {n}/15" for n in (4, 8, 12, 15)]


def test_avg_at_4_are_the_first_four_of_avg_at_32(asking):
    many, of_many, _ = asking(32, folder="many", batch=50)
    few, of_few, _ = asking(4, folder="few", batch=3)
    many.ask([of_many])
    few.ask([of_few])
    assert len(kept(many)) == 96 and kept(few) == {key: one for key, one in kept(many).items() if key[1] < 4}


def test_of_a_part_of_a_set_the_answers_are_those_of_the_whole(asking):
    whole, of_whole, _ = asking(2, problems=5, folder="whole")
    part, of_part, _ = asking(2, problems=3, folder="part")
    whole.ask([of_whole])
    part.ask([of_part])
    assert kept(part).items() <= kept(whole).items()


def test_another_seed_gives_other_answers(asking):
    first, one, _ = asking(4, folder="first")
    second, _, _ = asking(4, folder="second", seed=1)
    first.ask([one])
    second.ask([one])
    assert kept(first).keys() == kept(second).keys() and not set(kept(first).values()) & set(kept(second).values())


@pytest.mark.parametrize("lines", [0, 1, 4, 11, 14, 15])
def test_what_is_kept_is_not_asked_again_wherever_it_was_cut(asking, monkeypatch, lines):
    many, one, _ = asking(5)
    many.ask([one])
    whole, file = kept(many), many.folder / ANSWERS
    text = file.read_text().splitlines(keepends=True)
    file.write_text("".join(text[:lines]) + (text[lines][:40] if lines < 15 else ""))  # and half of a line
    asked, sample = [], many.sampler.sample
    monkeypatch.setattr(many.sampler, "sample", lambda prompts, *rest: asked.extend(prompts) or sample(prompts, *rest))
    again, one, said = asking(5)
    again.ask([one])
    assert kept(again) == whole and len(asked) == 15 - lines
    assert (f"sums[3]: {lines} of 15 answers are there already" in said) == (0 < lines < 15)
