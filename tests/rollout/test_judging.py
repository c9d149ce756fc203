"""Answers that are judged while others are written, and those that are judged together."""

from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from threading import Event

import pytest
import torch
from transformers import AutoTokenizer

from isentropic.rollout.generate import RolloutGenerator
from isentropic.rollout.judging import texts_of
from isentropic.rollout.prompts import PromptEncoder
from isentropic.sampler.scripted import ScriptedSampler
from isentropic.sampler.vllm.colocated import VllmSampler, available
from isentropic.task import Task

needs_vllm = pytest.mark.skipif(not available(), reason="vLLM is not installed")


@dataclass
class Heard(Task):
    """Sums that note how many answers come to each call of their judge."""

    sums: Task
    aside: bool
    calls: list[int] = field(default_factory=list)
    first: Event = field(default_factory=Event)

    def problems(self, split):
        return self.sums.problems(split)

    @property
    def verifies_aside(self):
        return self.aside

    def verify(self, problems, texts):
        verdicts = self.sums.verify(problems, texts)
        self.calls.append(len(texts))
        self.first.set()
        return verdicts


def generated(parts, task, sampler, **decoding):
    tokenizer = AutoTokenizer.from_pretrained(parts.model)
    generator = RolloutGenerator(task, sampler, PromptEncoder(tokenizer, False, None, (), {}), 0)
    problems = [task.problems("train")[place] for place in range(4)]
    return generator.generate(problems, range(4), 4, parts.decoding(**decoding), "train")


def check_same(parts, sampler, **decoding):
    """Judged one by one or together, rows and answers are the same to the bit."""
    tasks = [Heard(parts.sums(), aside) for aside in (False, True)]
    together, aside = (generated(parts, task, sampler, **decoding) for task in tasks)
    assert tasks[0].calls == [16] and sum(tasks[1].calls) == 16
    for one in fields(together.batch):
        ours, theirs = getattr(aside.batch, one.name), getattr(together.batch, one.name)
        assert torch.equal(ours.nan_to_num(7), theirs.nan_to_num(7)) and ours.dtype == theirs.dtype, one.name
    assert aside.answers == together.answers
    return together.batch


def test_texts_are_those_of_the_tokenizer_whatever_it_adds_to_its_backend(parts):
    tokenizer = AutoTokenizer.from_pretrained(parts.model)
    rows = [list(range(len(tokenizer))), [], [0], [5, len(tokenizer) + 9, 6]]
    plain = tokenizer.batch_decode(rows, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert texts_of(tokenizer, rows) == plain
    assert tokenizer.eos_token not in plain[0]

    class Loud(type(tokenizer)):
        def _decode(self, *args, **kwargs):
            return super()._decode(*args, **kwargs).upper() + "!"

    tokenizer.__class__ = Loud
    assert texts_of(tokenizer, rows) == [f"{text.upper()}!" for text in plain]


def test_answers_are_judged_before_the_last_is_written(parts):
    class Slow(ScriptedSampler):
        """Writes its last answer once another has been judged."""

        def converse(self, requests, decoding, reply):
            written = self.write(requests, decoding)
            for place, one in list(enumerate(written))[::-1]:
                if place == 0:
                    assert task.first.wait(60), "no answer was judged while others were written"
                assert isinstance(reply(place, one), Future)

    task, plain = Heard(parts.sums(), True), parts.scripted(parts.some_right)
    batch, answers = generated(parts, task, Slow(plain.answers, plain.eos))
    assert batch.correct.tolist() == [True, False, True, False] * 4 and len(task.calls) > 1
    assert [answer.verdict.correct for answer in answers] == batch.correct.tolist()


def test_rows_are_the_same_however_they_are_judged(parts):
    check_same(parts, parts.scripted(parts.some_right))


@needs_vllm
@pytest.mark.slow
def test_rows_of_an_engine_are_the_same_however_they_are_judged(parts, tiny_model):
    from fixtures.models import COLOCATED

    sampler = VllmSampler(tiny_model, **COLOCATED)
    sampler.start()
    try:
        batch = check_same(parts, sampler, max_tokens=24)
    finally:
        sampler.stop()
    assert len(batch.mask.sum(1).unique()) > 1, "all answers ended at one time"


@pytest.mark.parametrize("aside", [False, True])
def test_what_a_judge_raises_ends_the_rollout(parts, aside):
    class Broken(Heard):
        def verify(self, problems, texts):
            raise RuntimeError("a judge could not start")

    with pytest.raises(RuntimeError, match="a judge could not start"):
        generated(parts, Broken(parts.sums(), aside), parts.scripted(parts.some_right))
