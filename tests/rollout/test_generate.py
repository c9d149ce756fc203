import pytest
from transformers import AutoTokenizer

from isentropic.rollout.generate import RolloutGenerator
from isentropic.rollout.prompts import PromptEncoder
from isentropic.sampler.hf import TransformersSampler


@pytest.fixture
def generator_of(parts):
    def make(sampler=None, seed=0, task=None):
        tokenizer = AutoTokenizer.from_pretrained(parts.model)
        sampler = sampler or parts.scripted(parts.some_right)
        return RolloutGenerator(task or parts.sums(), sampler, PromptEncoder(tokenizer, False, None, (), {}), seed)

    return make


def generated(generator, parts, groups, count=4, draw="train"):
    problems = [generator.task.problems("train")[i] for i in groups]
    batch, answers = generator.generate(problems, groups, count, parts.decoding(), draw)
    return problems, batch, [answer.verdict.status for answer in answers]


def test_each_answer_is_judged_by_its_own_problem(generator_of, parts):
    problems, batch, statuses = generated(generator_of(), parts, [0, 1, 2])
    assert len({p.reference for p in problems}) > 1
    assert batch.correct.tolist() == [True, False, True, False] * 3
    assert batch.group.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert statuses == ["right", "unparseable", "right", "unparseable"] * 3
    assert batch.truncated.tolist() == [False, False, False, True] * 3


def test_the_ids_learnt_from_are_the_ids_written(generator_of, parts):
    """Text would lose the special tokens in the middle, and encoding it again would shift all that follow."""
    written = ["4", "<eos>", "<pad>", "2", "<eos>"]
    problems, batch, _ = generated(generator_of(parts.scripted(lambda value: [written])), parts, [0])
    prompt = [parts.symbols.index(s) for s in problems[0].prompt]
    ids = [parts.symbols.index(s) for s in written]
    assert batch.tokens.tolist() == [prompt + ids] * 4
    assert batch.mask.sum(-1).tolist() == [5] * 4


def test_seeds_lie_as_far_apart_as_there_are_completions(generator_of):
    generator = generator_of()
    for count in (1, 4, 7):
        seeds = [generator.seed_of("train", group, count) for group in range(50)]
        drawn = {seed + i for seed in seeds for i in range(count)}
        assert len(drawn) == 50 * count


def test_seeds_depend_on_the_run_and_the_occasion(generator_of):
    seeds = {generator_of(seed=seed).seed_of(draw, 0, 4) for seed in (0, 1) for draw in ("train", "test")}
    assert len(seeds) == 4


def test_completions_do_not_depend_on_what_else_is_asked(generator_of, parts):
    sampler = TransformersSampler(parts.model, "float32", "cpu", 32, 8)
    sampler.start()
    _, together, _ = generated(generator_of(sampler), parts, [4, 5, 6])
    _, alone, _ = generated(generator_of(sampler), parts, [5])
    mine = together[together.group == 5]
    assert mine.tokens[mine.mask].tolist() == alone.tokens[alone.mask].tolist()
    _, other, _ = generated(generator_of(sampler), parts, [7])
    assert len({tuple(row) for row in other.tokens.tolist()}) > 1


def test_a_prompt_longer_than_the_context_is_refused(generator_of, parts):
    sampler = TransformersSampler(parts.model, "float32", "cpu", 8, 8)
    sampler.start()
    message = r"a prompt of 4 tokens and max_tokens=6 together exceed sampler\.max_model_len=8"
    with pytest.raises(ValueError, match=message):
        generated(generator_of(sampler), parts, [0])
