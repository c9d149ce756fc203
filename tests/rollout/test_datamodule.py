import sys

import pytest
import torch
from fixtures.models import saving
from fixtures.tasks import Digits

from isentropic.callbacks.weight_sync import WeightSync
from isentropic.rollout.datamodule import EvaluationSettings
from isentropic.sampler.hf import TransformersSampler
from isentropic.task import Task


def watched(parts, module, sampler):
    """The sampler's own events, with the optimizer's steps between them."""
    step = module.step_optimizer

    def noted():
        sampler.events.append("update")
        return step()

    module.step_optimizer = noted
    return sampler.events


def test_sampling_and_updates_strictly_alternate(parts, tmp_path):
    sampler = parts.scripted(parts.some_right)
    module, data = parts.learner(mini_batch=8), parts.rollouts(sampler)
    events = watched(parts, module, sampler)
    parts.trainer(tmp_path, [WeightSync(1e-3, 8)]).fit(module, data)
    first = ["start", "wake", "update_weights"]
    later = ["sample", "sleep", "update", "update", "wake", "update_weights"]
    assert events == first + later * 3


def test_each_rollout_is_written_by_the_policy_that_reads_it(parts, tmp_path):
    sampler = TransformersSampler(parts.model, "float32", "cpu", 32, 64)
    gaps = []

    class Gaps(WeightSync):
        def compare(self, module):
            super().compare(module)
            gaps.append(float(module.trainer.callback_metrics["sampler/logp_gap"]))

    module = parts.learner(size=32, temperature=0.7)
    data = parts.rollouts(sampler, task=Digits(parts.sums()), batch_size=32, temperature=0.7)
    parts.trainer(tmp_path, [Gaps(1e-4, 8)]).fit(module, data)
    assert module.changed and len(gaps) == 3 and max(gaps) < 1e-5


def test_a_run_in_two_parts_is_the_run_in_one(parts, tmp_path):
    def run(folder, steps, ckpt_path=None):
        sampler = TransformersSampler(parts.model, "float32", "cpu", 32, 64)
        module = parts.learner(size=32)
        data = parts.rollouts(sampler, task=parts.sums(largest=3), batch_size=32, steps=steps)
        trainer = parts.trainer(tmp_path / folder, [WeightSync(1e-3, 8), saving(1)])
        trainer.fit(module, data, ckpt_path=ckpt_path, weights_only=True)
        return module, data

    whole, stream = run("whole", 3)
    run("parts", 1)
    resumed, again = run("parts", 3, ckpt_path=tmp_path / "parts" / "checkpoints" / "last.ckpt")
    assert again.stream.state_dict() == stream.stream.state_dict() == {"step": 3, "position": 24}
    assert torch.equal(resumed.last_rollout.batch.tokens, whole.last_rollout.batch.tokens)
    for (name, value), (_, other) in zip(resumed.weights(), whole.weights(), strict=True):
        assert torch.equal(value, other), name


def test_few_problems_are_asked_again_and_again(parts):
    task = parts.sums(largest=40)
    data = parts.rollouts(parts.scripted(parts.some_right), task=task, problems=3, steps=3)
    prompts = [prompt for drawn in data.train_dataloader() for prompt in asked(parts, drawn)]
    assert [prompts.count(p.prompt) for p in task.problems("train")[:3]] == [4, 4, 4]  # of 12 groups
    assert len(prompts) == 12


def asked(parts, drawn):
    for group in drawn.group.unique():
        row = (drawn.group == group).nonzero()[0, 0]
        length = int(drawn.mask[row].int().argmax())
        yield "".join(parts.symbols[i] for i in drawn.tokens[row, :length])


def test_sizes_that_do_not_fit_are_refused(parts):
    sampler = parts.scripted(parts.some_right)
    for settings, message in [
        (
            {"batch_size": 15},
            "rollout.batch_size=15 is not a multiple of rollout.group_size=4; the nearest that fit are 12 and 16",
        ),
        (
            {"batch_size": 3},
            "rollout.batch_size=3 is not a multiple of rollout.group_size=4; the smallest that fits is 4",
        ),
        ({"batch_size": 0}, "rollout.batch_size=0 and rollout.group_size=4 must be at least 1"),
        ({"group_size": 0}, "rollout.batch_size=16 and rollout.group_size=0 must be at least 1"),
        ({"steps": 0}, "rollout.steps=0 must be at least 1"),
        ({"max_tries": 0}, "rollout.max_tries=0 must be at least 1"),
        ({"problems": 0}, "rollout.problems=0 must be at least 1"),
        ({"judged": 0}, "evaluation.problems=0, count=2 and batch=2 must be at least 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            parts.rollouts(sampler, **settings)


@pytest.mark.parametrize(("name", "value", "off"), [("top_p", 0.9, 1), ("top_k", 5, 0), ("min_p", 0.1, 0)])
def test_truncated_sampling_is_refused_for_training_only(parts, name, value, off):
    sampler, kept = parts.scripted(parts.some_right), parts.decoding(**{name: value})
    with pytest.raises(ValueError, match=rf"rollout.decoding.{name}={value} truncates .* train with {name}={off} "):
        parts.rollouts(sampler, decoding=kept)
    parts.rollouts(sampler, evaluation=EvaluationSettings(split="test", problems=1, count=1, batch=1, decoding=kept))


def test_a_prompt_that_leaves_no_room_is_refused_before_the_run(parts):
    data = parts.rollouts(parts.scripted(parts.some_right), task=parts.sums(largest=100))
    longest = max(len(problem.prompt) for problem in data.problems_of("train")[:256])
    data.check_context(longest + 6)
    message = (
        f"a train prompt has {longest} tokens; with max_tokens=6 it does not fit sampler.max_model_len={longest + 5}; "
        f"raise that to {longest + 6}"
    )
    with pytest.raises(ValueError, match=message):
        data.check_context(longest + 5)


def test_the_longest_of_few_problems_is_found_wherever_it_is(parts):
    short, long = parts.sums().problems("train"), parts.sums(largest=10**6).problems("train")
    task = Fixed([*(short[i] for i in range(600)), long[0]], parts.sums().problems("test"))
    data = parts.rollouts(parts.scripted(parts.some_right), task=task)
    with pytest.raises(ValueError, match=f"a train prompt has {len(long[0].prompt)} tokens"):
        data.check_context(len(long[0].prompt) + 5)


class Fixed(Task):
    def __init__(self, train, test):
        self.splits = {"train": train, "test": test}

    def problems(self, split):
        return self.splits[split]

    def verify(self, problems, texts):
        raise AssertionError("nothing is judged here")


def test_the_policy_is_judged_on_the_split_it_is_told_to_be(parts):
    sampler = parts.scripted(parts.some_right)
    for split in ("validation", "test"):
        evaluation = EvaluationSettings(split=split, problems=3, count=1, batch=3, decoding=parts.decoding())
        judged = parts.rollouts(sampler, evaluation=evaluation).val_dataloader().problems[:3]
        assert judged == parts.sums().problems(split)[:3]
    with pytest.raises(ValueError, match=r"evaluation.split=train must be validation or test"):
        EvaluationSettings(split="train", problems=3, count=1, batch=3, decoding=parts.decoding())


class Sets(Digits):
    """The same test problems, as two sets: the first five of them, and four more."""

    def sets(self, split):
        return {"first": 5, "second": 4} if split == "test" else {}

    def problems(self, split):
        problems = self.sums.problems(split)
        return problems[:9] if split == "test" else problems


@pytest.mark.parametrize(
    "number, found",
    [
        (None, {"first": range(5), "second": range(5, 9)}),
        (5, {"first": range(5), "second": range(5, 9)}),
        (4, {"first[4]": range(4), "second": range(5, 9)}),
        (2, {"first[2]": range(2), "second[2]": range(5, 7)}),
    ],
)
def test_all_problems_of_each_set_are_judged_or_the_number_is_in_the_name(parts, number, found):
    asked = EvaluationSettings(split="test", problems=number, count=1, batch=3, decoding=parts.decoding())
    data = parts.rollouts(parts.scripted(parts.some_right), task=Sets(parts.sums()), evaluation=asked)
    assert data.evaluated() == found
    groups = [group for batch in data.val_dataloader() for group in batch.group.tolist()]
    assert groups == [place for part in found.values() for place in part]


def test_one_set_has_no_name_but_where_it_is_not_asked_whole(parts):
    def data(number):
        asked = EvaluationSettings(split="test", problems=number, count=1, batch=3, decoding=parts.decoding())
        return parts.rollouts(parts.scripted(parts.some_right), evaluation=asked)

    size = len(data(1).problems_of("test"))
    assert data(3).evaluated() == ({"": range(3)} if size == sys.maxsize else {"test[3]": range(3)})
    if size == sys.maxsize:
        with pytest.raises(ValueError, match="makes problems without end; say how many"):
            data(None).evaluated()


def test_greedy_is_for_evaluations_of_one_answer(parts):
    greedy = parts.decoding(temperature=0.0)
    EvaluationSettings(split="test", problems=3, count=1, batch=3, decoding=greedy)
    with pytest.raises(ValueError, match="count=2 completions at temperature=0 would all be the same"):
        EvaluationSettings(split="test", problems=3, count=2, batch=3, decoding=greedy)
    with pytest.raises(ValueError, match=r"rollout.decoding.temperature=0.0 is not above 0"):
        parts.rollouts(parts.scripted(parts.some_right), decoding=greedy)


@pytest.mark.parametrize("ranks", [2, 8, 16])
def test_more_ranks_than_problems_each_have_one_to_answer(parts, monkeypatch, ranks):
    data = parts.rollouts(parts.scripted(parts.some_right), batch_size=64, judged=3)
    data.check_ranks(ranks)
    found = []
    for rank in range(ranks):
        monkeypatch.setattr("isentropic.rollout.stream.rank", lambda rank=rank: rank)
        monkeypatch.setattr("isentropic.rollout.stream.world_size", lambda: ranks)
        found.append({group for batch in data.val_dataloader() for group in batch.group.tolist()})
    assert all(found) and set.union(*found) == {0, 1, 2}
