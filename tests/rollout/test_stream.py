"""Also a program, run once per rank: what the streams do there."""

import pickle
import random
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from isentropic.reward import Reward
from isentropic.reward.correct import Correct
from isentropic.reward.total import Rewards
from isentropic.rollout.curation import Curator
from isentropic.rollout.curation.informative import Informative
from isentropic.rollout.curation.overlong import Overlong
from isentropic.rollout.generate import RolloutGenerator
from isentropic.rollout.prompts import PromptEncoder
from isentropic.rollout.sampling.curriculum import Curriculum
from isentropic.rollout.sampling.hard_again import HardAgain
from isentropic.rollout.sampling.pass_rate import PassRate
from isentropic.rollout.sampling.shuffled import Shuffled
from isentropic.rollout.sampling.weighted import Weighted
from isentropic.rollout.shares import cached_share, since
from isentropic.rollout.stream import EvaluationStream, RolloutStream
from isentropic.sampler.hf import TransformersSampler
from isentropic.state import StateError


def engine(model):
    sampler = TransformersSampler(model, "float32", "cpu", 32, 64)
    sampler.start()
    return sampler


def plain(parts):
    return PromptEncoder(AutoTokenizer.from_pretrained(parts.model), False, None, (), {})


def stream_of(parts, sampler, problems=None, curate=None, task=None, rewards=None, sampling=None, **settings):
    task = task or parts.sums()
    generator = RolloutGenerator(task, sampler, plain(parts), 0)
    sizes = {"steps": 3, "prompts": 4, "group": 4, "max_tries": 3, "seed": 0, "ahead": False}
    problems = problems or task.problems("train")
    rewards = rewards or Rewards({"correct": Correct(weight=1.0)})
    return RolloutStream(
        generator, problems, rewards, curate or {}, sampling or Shuffled(), parts.decoding(), **(sizes | settings)
    )


def same(a, b):
    pairs = zip(vars(a).values(), vars(b).values(), strict=True)
    return all(torch.equal(x.nan_to_num(), y.nan_to_num()) for x, y in pairs)


def odd_are_easy(value):
    """Sums that are odd: half right. Even sums that 4 divides: all right. The others: all wrong."""
    right, wrong = [*str(value), "<eos>"], ["+", "<eos>"]
    return [right, wrong] if value % 2 else [right] if value % 4 == 0 else [wrong]


def seldom(value):
    """Only one sum in nine is worth asking."""
    return [[*str(value), "<eos>"], ["+", "<eos>"]] if value == 10 else [["+", "<eos>"]]


def informative():
    return {"informative": Informative(0.0, 1.0)}


def test_a_group_is_one_prompt_and_an_id_is_never_used_again(parts):
    same_problems = parts.sums(largest=3).problems("train")[:2]
    seen = Counter()
    for drawn in stream_of(parts, parts.scripted(parts.some_right), problems=same_problems):
        for group in drawn.group.unique():
            rows = drawn.tokens[drawn.group == group, :4]
            assert len(rows) == 4 and (rows == rows[0]).all()
            seen[int(group)] += 1
    assert seen == Counter(range(12))


def test_a_rollout_is_made_when_it_is_asked_for(parts):
    sampler = parts.scripted(parts.some_right)
    items = iter(stream_of(parts, sampler))
    assert sampler.events == []
    next(items)
    assert sampler.events == ["sample"]


@pytest.mark.parametrize("curate", [{}, informative()])
def test_a_stream_goes_on_where_its_state_was_taken(parts, curate):
    sampler, task = engine(parts.model), parts.sums(largest=3)
    whole = stream_of(parts, sampler, curate=curate, task=task, group=8)
    items = iter(whole)
    next(items)
    state = whole.state_dict()
    rest = list(items)
    assert (state["position"] > 4) == bool(curate)  # rounds that curation used up count
    resumed = stream_of(parts, sampler, curate=curate, task=task, group=8)
    again = iter(resumed)  # as Lightning does: first the iterator, then the state
    resumed.load_state_dict(state)
    assert len(rest) == 2 and all(same(a, b) for a, b in zip(rest, again, strict=True))


SAMPLINGS = {
    "shuffled": lambda: Shuffled(),
    "weighted": lambda: Weighted(column="weight"),
    "curriculum": lambda: Curriculum(column="difficulty", start=0.2, prompts=9),
    "pass_rate": lambda: PassRate(unseen=0.5, floor=0.05, forget=0.5),
    "hard_again": lambda: HardAgain(share=0.5, below=0.5, times=3),
}


def with_columns(parts):
    problems = parts.sums().problems("train")[:20]
    return [replace(p, columns={"weight": 1 + i % 3, "difficulty": -i}) for i, p in enumerate(problems)]


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("name", SAMPLINGS)
def test_problems_are_sampled_alike_when_a_run_goes_on(parts, name, ahead):
    def made():
        settings = {"problems": with_columns(parts), "sampling": SAMPLINGS[name](), "steps": 6, "ahead": ahead}
        return stream_of(parts, parts.scripted(odd_are_easy), curate=informative(), **settings)

    whole, asked, states = made(), [], []
    for batch in whole:
        asked.append((batch.group.tolist(), batch.problem.tolist()))
        whole.wait_for_pending()
        states.append(pickle.dumps(whole.state_dict()))
    for stopped in (1, 3, 5):
        resumed = made()
        resumed.load_state_dict(pickle.loads(states[stopped - 1]))
        rest = [(batch.group.tolist(), batch.problem.tolist()) for batch in resumed]
        assert rest == asked[stopped:]
        assert resumed.state_dict() == whole.state_dict()


@dataclass
class Counts(Curator):
    """Remembers how often each problem came, and lowers its reward by that."""

    seen: dict = field(default_factory=dict, init=False)

    def __call__(self, batch):
        for group in batch.group.unique():
            number = int(batch.problem[batch.group == group][0])
            self.seen[number] = self.seen.get(number, 0) + 1
        times = torch.tensor([self.seen[int(number)] for number in batch.problem])
        return replace(batch, reward=batch.reward - times)

    def state_dict(self):
        return {"seen": self.seen}

    def load_state_dict(self, state):
        self.seen = state["seen"]


class Forgets(Counts):
    state_dict = load_state_dict = None


@pytest.mark.parametrize("ahead", [False, True])
def test_what_curators_remember_of_problems_goes_on(parts, ahead):
    def made():
        settings = {"problems": parts.sums().problems("train")[:6], "steps": 5, "ahead": ahead}
        return stream_of(parts, parts.scripted(parts.some_right), curate={"counts": Counts()}, **settings)

    whole, rewards, states = made(), [], []
    for batch in whole:
        rewards.append(batch.reward.tolist())
        whole.wait_for_pending()
        states.append(pickle.dumps(whole.state_dict()))
    resumed = made()
    resumed.load_state_dict(pickle.loads(states[1]))
    assert [batch.reward.tolist() for batch in resumed] == rewards[2:]
    assert rewards[0] != rewards[4]
    with pytest.raises(ValueError, match=r"the checkpoint has no memory of rollout\.curation\.counts \(Counts\)"):
        whole.load_state_dict({"step": 1, "position": 4})


def test_what_a_task_remembers_goes_on(parts):
    class Graded(type(parts.sums())):
        """Pays less, the more it has judged."""

        judged = 0

        def verify(self, problems, texts):
            self.__dict__["judged"] = self.judged + len(texts)
            return [replace(verdict, reward=1 / self.judged) for verdict in super().verify(problems, texts)]

        def state_dict(self):
            return {"judged": self.judged}

        def load_state_dict(self, state):
            self.__dict__["judged"] = state["judged"]

    def made():
        task = Graded(pattern="1..9+1..9", template="{question}=", marker="", held_out=0.2, seed=0)
        return stream_of(parts, parts.scripted(parts.some_right), task=task, steps=4)

    whole, rewards, states = made(), [], []
    for batch in whole:
        rewards.append(batch.reward.tolist())
        states.append(whole.state_dict())
    resumed = made()
    resumed.load_state_dict(states[1])
    assert [batch.reward.tolist() for batch in resumed] == rewards[2:]


def test_a_curator_that_would_forget_is_refused_after_the_first_rollout(parts):
    items = iter(stream_of(parts, parts.scripted(parts.some_right), curate={"mine": Forgets()}))
    with pytest.raises(ValueError, match=r"rollout\.curation\.mine: Forgets\.seen has changed during the run and "):
        next(items)


@dataclass(frozen=True)
class Lucky(Reward):
    """Draws from what all code shares, and so does what is called between two rollouts."""

    of_torch: bool
    weight: float = 1.0

    def __call__(self, answers):
        return [random.random() + np.random.rand() + (float(torch.rand(1)) if self.of_torch else 0) for _ in answers]


@pytest.mark.parametrize(("of_torch", "ahead"), [(True, False), (False, True)])
def test_a_reward_that_draws_from_what_all_code_shares_goes_on_alike(parts, of_torch, ahead):
    def made():
        lucky = Rewards({"lucky": Lucky(of_torch)})
        return stream_of(parts, parts.scripted(parts.some_right), rewards=lucky, steps=4, ahead=ahead)

    whole, rewards, states = made(), [], []
    for batch in whole:
        rewards.append(batch.reward.tolist())
        whole.wait_for_pending()
        states.append(whole.state_dict())
        random.random()
        torch.rand(1)
    resumed = made()
    resumed.load_state_dict(states[1])
    assert [batch.reward.tolist() for batch in resumed] == rewards[2:]
    assert rewards[0] != rewards[1]


def test_a_reward_that_would_draw_with_an_update_is_refused(parts):
    lucky = Rewards({"lucky": Lucky(of_torch=True)})
    with pytest.raises(StateError, match="a reward draws from the generator of torch that all code shares"):
        next(iter(stream_of(parts, parts.scripted(parts.some_right), rewards=lucky, ahead=True)))


def test_dynamic_sampling_asks_until_the_batch_is_full(parts):
    stream = stream_of(parts, parts.scripted(odd_are_easy), curate=informative(), max_tries=20)
    tries = []
    for drawn in stream:
        groups = drawn.group.tolist()
        assert len(drawn.tokens) == 16 and Counter(groups) == dict.fromkeys(groups, 4)
        share = [drawn.correct[drawn.group == g].float().mean() for g in drawn.group.unique()]
        assert share == [0.5] * 4
        assert stream.report["rollout/filled"] == 1
        tries.append(stream.report["rollout/tries"])
    assert 1 < max(tries) < 20


def test_dynamic_sampling_gives_up_and_takes_what_there_is(parts):
    stream = stream_of(parts, parts.scripted(seldom), curate=informative(), prompts=8, max_tries=2)
    sizes = []
    for drawn in stream:
        sizes.append(len(drawn.group.unique()))
        assert stream.report["rollout/tries"] == 2
        assert stream.report["rollout/filled"] == sizes[-1] / 8
    assert stream.position == 3 * 2 * 8
    assert 0 < min(sizes) < 8


def test_where_nothing_teaches_one_group_keeps_the_ranks_in_step(parts):
    stream = stream_of(parts, parts.scripted(lambda value: [["+", "<eos>"]]), curate=informative())
    drawn = next(iter(stream))
    assert drawn.group.tolist() == [0] * 4
    assert stream.report["rollout/filled"] == 0 and stream.report["rollout/tries"] == 3


def test_what_is_asked_is_counted_before_curation(parts):
    task = parts.sums()
    stream = stream_of(parts, parts.scripted(odd_are_easy), curate=informative(), task=task, max_tries=1, prompts=20)
    next(iter(stream))
    values = [p.reference for p in task.problems("train")[:20]]
    kinds = [sum(v % 4 == 0 for v in values), sum(v % 4 == 2 for v in values), sum(v % 2 for v in values)]
    assert min(kinds) > 0
    report = stream.report
    assert report["rollout/all_right"] == pytest.approx(kinds[0] / 20)
    assert report["rollout/all_wrong"] == pytest.approx(kinds[1] / 20)
    assert report["rollout/asked_correct"] == pytest.approx((kinds[0] + kinds[2] / 2) / 20)
    assert report["rollout/unparseable"] == pytest.approx((kinds[1] + kinds[2] / 2) / 20)
    assert report["rollout/filled"] == kinds[2] / 20
    right = [len(str(v)) + 1 for v in values]
    lengths = [2 * (n + 2) if v % 2 else 4 * n if v % 4 == 0 else 4 * 2 for v, n in zip(values, right, strict=True)]
    assert report["rollout/tokens"] == sum(lengths) and report["rollout/reflection"] == 0


def test_a_long_answer_loses_reward_and_stays_right(parts):
    answers = parts.scripted(lambda value: [[*str(value), *"+++"[: 4 - len(str(value))], "<eos>"]])
    plain = next(iter(stream_of(parts, answers)))
    shaped = next(
        iter(stream_of(parts, answers, curate={"overlong": Overlong(max_length=6, buffer=4, count="chosen")}))
    )
    assert plain.reward.tolist() == [1.0] * 16 and shaped.reward.tolist() == [0.25] * 16  # 5 tokens: 3 of 4 into it
    assert shaped.correct.all()


def test_problems_to_be_judged_on_are_the_same_every_time(parts):
    task = parts.sums()
    generator = RolloutGenerator(task, engine(parts.model), plain(parts), 0)
    stream = EvaluationStream(generator, task.problems("test"), parts.decoding(), count=2, places=range(5), batch=2)
    first, second = list(stream), list(stream)
    assert len(stream) == 3 and [b.group.tolist() for b in first] == [[0, 0, 1, 1], [2, 2, 3, 3], [4, 4]]
    assert all(same(a, b) for a, b in zip(first, second, strict=True))


def prompts(batch):
    return [row[~mask][:4].tolist() for row, mask in zip(batch.tokens, batch.mask, strict=True)]


def what_happens(parts):
    """Which prompts are asked, with and without curation, and which are judged; picklable."""
    sampler = engine(parts.model)
    found = {"rollouts": [(b.group.tolist(), prompts(b), texts(b)) for b in stream_of(parts, sampler)]}
    dynamic = stream_of(parts, parts.scripted(odd_are_easy), curate=informative(), max_tries=20)
    found["dynamic"] = [(b.group.tolist(), dynamic.position, dynamic.report) for b in dynamic]
    problems = parts.sums().problems("test")
    judged = EvaluationStream(dynamic.generator, problems, parts.decoding(), count=2, places=range(5), batch=2)
    found["judged"] = [group for b in judged for group in b.group.tolist()]
    return found


def texts(batch):
    return [row[mask].tolist() for row, mask in zip(batch.tokens, batch.mask, strict=True)]


def test_two_ranks_share_what_one_would_do(parts, forks, tmp_path):
    for rank in forks(__file__, *(([tmp_path, rank, parts.model], {}) for rank in range(2))):
        assert rank.returncode == 0, rank.stderr
    one, two = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    alone = what_happens(parts)
    assert one["rollouts"] != two["rollouts"]
    for a, b, both in zip(one["rollouts"], two["rollouts"], alone["rollouts"], strict=True):
        rows = sorted([*zip(*a, strict=True), *zip(*b, strict=True)], key=lambda row: row[0])  # by group
        assert [list(column) for column in zip(*rows, strict=True)] == list(both)
    for (groups_a, position_a, report_a), (groups_b, position_b, report_b) in zip(
        one["dynamic"], two["dynamic"], strict=True
    ):
        assert position_a == position_b and report_a == report_b
        assert not set(groups_a) & set(groups_b) and len(groups_a) == len(groups_b) == 8
    assert sorted(one["judged"] + two["judged"]) == sorted(alone["judged"]) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from types import SimpleNamespace

    from fixtures import models

    folder, rank, model = sys.argv[1:]
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=int(rank), world_size=2)
    torch.save(what_happens(SimpleNamespace(**{**vars(models), "model": model})), f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_a_rollout_that_is_drawn_ahead_is_the_one_that_would_have_been_drawn_then(parts):
    plain = stream_of(parts, parts.scripted(odd_are_easy), curate=informative(), max_tries=20)
    ahead = stream_of(parts, parts.scripted(odd_are_easy), curate=informative(), max_tries=20, ahead=True)
    states = []
    for ours, theirs in zip(ahead, plain, strict=True):
        assert torch.equal(ours.tokens, theirs.tokens)
        assert torch.equal(ours.group, theirs.group)
        assert ahead.report == plain.report
        ahead.wait_for_pending()
        assert ahead.coming is None or ahead.coming.done()
        assert ahead.state_dict() == plain.state_dict()  # what is drawn ahead is drawn again after a resume
        states.append(ahead.state_dict())
    assert len(states) == 3
    assert ahead.coming is None


def test_what_fails_while_a_rollout_is_drawn_ahead_is_raised_where_it_is_wanted(parts):
    sampler = parts.scripted(odd_are_easy)
    stream = stream_of(parts, sampler, ahead=True)
    rollouts = iter(stream)
    next(rollouts)
    stream.wait_for_pending()
    sampler.answers = {}
    next(rollouts)  # was drawn before
    with pytest.raises(KeyError):
        next(rollouts)


def test_what_a_curator_takes_off_rewards_is_logged_as_a_mean_of_all_that_came_to_it(parts):
    """Right answers have two or three tokens of six, wrong ones one, and cut ones three."""
    curate = {"overlong": Overlong(max_length=4, buffer=4, count="chosen"), "informative": Informative(0.0, 1.0)}
    stream = stream_of(parts, parts.scripted(parts.some_right), curate=curate)
    rows = next(iter(stream))
    taken = (rows.correct.float() - rows.reward).mean()
    assert stream.report["curation/overlong"] == pytest.approx(float(taken)) and taken > 0
    assert "curation/informative" not in stream.report


def test_the_cached_share_is_of_what_was_read_for_the_rollout():
    assert cached_share(since((100, 90), (180, 110))) == {"sampler/cached_share": 0.25}
    assert cached_share(since((100, 90), (100, 90))) == cached_share(since(None, (8, 2))) == {}
