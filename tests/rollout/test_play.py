"""Episodes of many turns: what is written, what is read between, and how they end."""

import threading
import warnings
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace

import pytest
import torch
from fixtures.models import saving
from fixtures.tasks import Digits
from transformers import AutoTokenizer

from isentropic.callbacks.weight_sync import WeightSync
from isentropic.rollout.generate import RolloutGenerator
from isentropic.rollout.play import seed_of
from isentropic.rollout.prompts import PromptEncoder
from isentropic.sampler.hf import TransformersSampler
from isentropic.task import Problem, Task, Verdict
from isentropic.task.calculator import Calculator
from isentropic.task.environment import Environment, Reply

RIGHT = Verdict(1.0, True, "right")


@dataclass
class World:
    """An episode whose replies are given; a reply may be an exception, or something to call."""

    replies: list
    problem: Problem
    seed: int
    heard: list = field(default_factory=list)
    closed: int = 0

    def step(self, text):
        self.heard.append(text)
        reply = self.replies[min(len(self.heard), len(self.replies)) - 1]
        if isinstance(reply, BaseException):
            raise reply
        return reply() if callable(reply) else reply

    def close(self):
        self.closed += 1


@dataclass
class Worlds(Environment):
    """Each episode begins with the replies that its number asks for; all are kept."""

    replies: object
    stop: str | None = None
    episodes: list = field(default_factory=list)

    def problems(self, split):
        return [Problem(f"{i}+{i}=", i) for i in range(1, 5)]

    def begin(self, problem, seed):
        replies = self.replies(problem) if callable(self.replies) else self.replies
        episode = World(replies, problem, seed)
        self.episodes.append(episode)
        return episode

    def verify(self, problems, texts):
        return [RIGHT for _ in texts]


@dataclass(frozen=True)
class Once(Environment):
    """The same task, as an environment of one turn."""

    task: Task

    def problems(self, split):
        return self.task.problems(split)

    def verify(self, problems, texts):
        return self.task.verify(problems, texts)

    def begin(self, problem, seed):
        verify = self.task.verify

        class Judged:
            def step(self, text):
                return Reply("", verify([problem], [text])[0])

            def close(self):
                pass

        return Judged()


@dataclass(frozen=True)
class Chance(Environment):
    """Three turns, a digit by the world's own chance after each, and pay for the share of digits written."""

    task: Task

    def problems(self, split):
        return self.task.problems(split)

    def verify(self, problems, texts):
        return self.task.verify(problems, texts)

    def begin(self, problem, seed):
        judge, chance = self.task.verify, Random(seed)

        class Third:
            texts = ""
            left = 3

            def step(self, text):
                self.texts, self.left = self.texts + text, self.left - 1
                return Reply(str(chance.randrange(10))) if self.left else Reply("", judge([problem], [self.texts])[0])

            def close(self):
                pass

        return Third()


@pytest.fixture
def play(parts):
    """Rows of some problems, each answered once."""

    def run(task, sampler=None, groups=(0,), count=1, max_tokens=12, draw="train", seed=0, **settings):
        sampler = sampler or parts.scripted(lambda value: [["1", "<eos>"]])
        prompts = PromptEncoder(AutoTokenizer.from_pretrained(parts.model), False, None, (), {})
        generator = RolloutGenerator(task, sampler, prompts, seed, parts.turns(**settings))
        problems = [task.problems("train")[group] for group in groups]
        decoding = parts.decoding(max_tokens=max_tokens, stop=task.stop)
        return generator.generate(problems, list(groups), count, decoding, draw)

    return run


def ids(parts, text):
    """Of characters, with $ for the end token."""
    return [1 if symbol == "$" else parts.symbols.index(symbol) for symbol in text]


class Script(dict):
    """The same answer after every prompt, or one by how many tokens stand there."""

    def __init__(self, answers):
        super().__init__()
        self.answers, self.asked = answers, []

    def __missing__(self, prompt):
        self.asked.append(prompt)
        return [self.answers[min(len(self.asked), len(self.answers)) - 1]]


def scripted(parts, *answers):
    from isentropic.sampler.scripted import ScriptedSampler

    return ScriptedSampler(Script([ids(parts, answer) for answer in answers]), eos=1)


def text(parts, row):
    return "".join("$" if token == 1 else parts.symbols[token] for token in row)


def test_an_environment_of_one_turn_is_the_plain_task_bit_for_bit(parts, tmp_path):
    class Kept(WeightSync):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            seen.append((pl_module.last_rollout.batch, dict(pl_module.last_row)))
            super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)

    runs = []
    for place, task in enumerate((Digits(parts.sums()), Once(Digits(parts.sums())))):
        seen = []
        sampler = TransformersSampler(parts.model, "float32", "cpu", 32, 64)
        module, data = (
            parts.learner(size=16, mini_batch=8, lr=1e-3),
            parts.rollouts(sampler, task=task, steps=10, turns=parts.turns(turns=1)),
        )
        parts.trainer(tmp_path / str(place), [Kept(1e-3, 8)]).fit(module, data)
        runs.append((seen, list(module.weights())))
    (plain, weights), (played, others) = runs
    assert len(plain) == 10 and len({float(batch.reward.mean()) for batch, _ in plain}) > 2
    for (batch, row), (other, losses) in zip(plain, played, strict=True):
        for name in ("tokens", "mask", "group", "reward", "correct", "truncated", "problem", "turn", "void", "calls"):
            assert torch.equal(getattr(batch, name), getattr(other, name)), name
        for name in ("sampler_logp", "old_logp", "old_entropy"):
            assert torch.equal(getattr(batch, name).nan_to_num(9), getattr(other, name).nan_to_num(9)), name
        assert {k: v for k, v in row.items() if v == v} == {k: v for k, v in losses.items() if v == v}
    for (name, value), (_, other) in zip(weights, others, strict=True):
        assert torch.equal(value, other), name


@pytest.mark.slow
def test_a_run_of_several_turns_in_two_parts_is_the_run_in_one(parts, tmp_path):
    def run(folder, steps, ckpt_path=None, workers=4):
        sampler = TransformersSampler(parts.model, "float32", "cpu", 64, 64)
        module, task = parts.learner(size=16, lr=1e-3), Chance(Digits(parts.sums()))
        budgets = parts.turns(turns=3, turn_tokens=2, workers=workers)
        data = parts.rollouts(sampler, task=task, steps=steps, turns=budgets)
        trainer = parts.trainer(tmp_path / folder, [WeightSync(1e-3, 8), saving(1)])
        trainer.fit(module, data, ckpt_path=ckpt_path, weights_only=True)
        return module

    whole = run("whole", 3)
    gaps = {name: float(gap) for name, gap in whole.trainer.callback_metrics.items() if "logp_gap_turn" in name}
    assert set(gaps) == {f"sampler/logp_gap_turn_{turn}" for turn in range(3)} and max(gaps.values()) < 1e-5
    for k in (1, 2):
        run(f"part{k}", k)
        last = tmp_path / f"part{k}" / "checkpoints" / "last.ckpt"
        resumed = run(f"part{k}", 3, ckpt_path=last, workers=1)
        assert resumed.last_rollout.batch.turn.max() == 2
        assert torch.equal(resumed.last_rollout.batch.tokens, whole.last_rollout.batch.tokens)
        for (name, value), (_, other) in zip(resumed.weights(), whole.weights(), strict=True):
            assert torch.equal(value, other), name


def test_episodes_that_are_played_ahead_are_those_that_would_have_been_played_then(parts):
    sampler, found = TransformersSampler(parts.model, "float32", "cpu", 64, 64), []
    sampler.start()
    for ahead in (False, True):
        task, budgets = Chance(Digits(parts.sums())), parts.turns(turns=3, turn_tokens=2)
        data = parts.rollouts(sampler, task=task, turns=budgets, one_step_off_policy=ahead)
        found.append(list(data.train_dataloader()))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one.tokens, other.tokens) and torch.equal(one.turn, other.turn) and one.turn.max() == 2


def test_turns_and_what_is_read_between_them_stand_in_one_row(parts, play):
    task = Worlds([Reply("5;"), Reply("", RIGHT)], stop=";")
    sampler = scripted(parts, "3;", "44$")
    batch, answers = play(task, sampler, max_tokens=8)
    assert text(parts, batch.tokens[0].tolist()) == "1+1=3;5;44$"
    assert batch.mask[0].int().tolist() == [0] * 4 + [1, 1] + [0, 0] + [1, 1, 1]
    assert batch.turn[0].tolist() == [0] * 8 + [1] * 3
    assert task.episodes[0].heard == ["3;", "44"] and task.episodes[0].closed == 1
    assert answers[0].text == "3;5;44" and answers[0].own == "3;\n44" and answers[0].tokens == ids(parts, "3;44$")
    assert (answers[0].played.observed, answers[0].verdict, answers[0].finish) == (2, RIGHT, "stop")
    assert sampler.answers.asked == [tuple(ids(parts, "1+1=")), tuple(ids(parts, "1+1=3;5;"))]  # only ever appended


def test_an_answer_has_its_tokens_of_all_turns_together(parts, play):
    batch, answers = play(Worlds([Reply("5;")]), scripted(parts, "33333"), max_tokens=7, turn_tokens=3)
    assert text(parts, batch.tokens[0].tolist()) == "1+1=3335;3335;3"
    assert (answers[0].verdict.status, bool(batch.truncated[0])) == ("unparseable", True)


@pytest.mark.golden
@pytest.mark.parametrize(("observation", "row"), [("5;", "1+1=3;5;"), ("567", "1+1=3;57")])
def test_an_observation_that_fits_exactly_is_read_and_the_episode_then_is_cut(parts, play, observation, row):
    sampler = scripted(parts, "3;")
    sampler.max_model_len = 8
    task = Worlds([Reply(observation)], stop=";")
    batch, answers = play(task, sampler)
    assert text(parts, batch.tokens[0].tolist()) == row and bool(batch.truncated[0])
    assert answers[0].verdict == Verdict(0.0, False, "unparseable")
    if observation == "567":
        batch, answers = play(task, sampler, cut=False)
        assert text(parts, batch.tokens[0].tolist()) == "1+1=3;" and bool(batch.truncated[0])


@pytest.mark.parametrize(
    ("budget", "reply", "turns"),
    [
        ({"turns": 3}, Reply("5;"), 3),
        ({"turns": 1}, Reply("5;"), 1),
        ({"calls": 4}, Reply("5;", calls=2), 3),  # what four calls gave is read; a fifth is one too many
        ({"tool_seconds": 1.0}, Reply("5;", calls=1, seconds=0.6), 2),
    ],
)
def test_an_episode_that_uses_up_a_budget_ends_there(parts, play, budget, reply, turns):
    task = Worlds([reply], stop=";")
    batch, answers = play(task, scripted(parts, "3;"), max_tokens=40, **budget)
    assert len(task.episodes[0].heard) == turns and task.episodes[0].closed == 1
    assert (answers[0].verdict, bool(batch.truncated[0])) == (Verdict(0.0, False, "budget"), False)


def test_all_that_is_read_has_a_budget_too(parts, play):
    batch, answers = play(Worlds([Reply("5678;")], stop=";"), scripted(parts, "3;"), max_tokens=40, observed_tokens=7)
    assert text(parts, batch.tokens[0].tolist()) == "1+1=3;5678;3;5;3;" and bool(batch.truncated[0])
    assert answers[0].played.observed == 7


@pytest.mark.parametrize(
    "reply", [RuntimeError("no such\ntool"), "text", None, 3, KeyboardInterrupt(), SystemExit(3), MemoryError()]
)
def test_a_world_that_fails_costs_its_own_episode_alone(parts, play, reply):
    broken = [Reply("5;"), lambda: reply] if not isinstance(reply, BaseException) else [Reply("5;"), reply]
    task = Worlds(
        lambda problem: broken if problem.reference == 2 else [Reply("5;"), Reply("6;"), Reply("", RIGHT)], ";"
    )
    with pytest.warns(UserWarning, match=r"Worlds\.step raised"):
        batch, answers = play(task, scripted(parts, "3;"), groups=(0, 1, 2))
    assert [answer.verdict.status for answer in answers] == ["right", "crash", "right"]
    assert batch.mask.sum(-1).tolist() == [6, 4, 6] and [one.closed for one in task.episodes] == [1, 1, 1]


class Mute(Exception):
    def __str__(self):
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Mute(), "raised Mute: "),
        (TimeoutError("timed out"), "raised TimeoutError: timed out in .*test_play.py"),
        (lambda: Reply("", Verdict(1e300, True, "right")), "a reward of 1e[+]300, which is not finite or beyond"),
        (lambda: Reply("5;", calls=2**63), "step counted calls=9223372036854775808, failed=0"),
        (lambda: Reply("5;", seconds=1e308), "step gave seconds=1e[+]308"),
    ],
)
def test_what_a_batch_cannot_hold_and_errors_of_all_kinds_cost_their_own_episode(parts, play, reply, said):
    task = Worlds(lambda problem: [reply if problem.reference == 2 else Reply("", RIGHT)], ";")
    with pytest.warns(UserWarning, match=rf"Worlds\.step .*{said}"):
        batch, answers = play(task, scripted(parts, "3;"), groups=(0, 1, 2))
    assert [answer.verdict.status for answer in answers] == ["right", "crash", "right"]
    assert batch.reward.tolist() == [1, 0, 1]


def test_a_world_that_cannot_begin_leaves_a_row_without_tokens(parts, play):
    class Shut(Worlds):
        def begin(self, problem, seed):
            if problem.reference == 2:
                raise OSError("no room")
            return super().begin(problem, seed)

    task = Shut([Reply("", RIGHT)])
    with pytest.warns(UserWarning, match=r"Shut\.begin raised OSError: no room"):
        batch, answers = play(task, groups=(0, 1))
    assert [answer.verdict.status for answer in answers] == ["right", "crash"]
    assert batch.mask.sum(-1).tolist() == [2, 0]


def test_what_keeps_a_world_from_beginning_is_said_while_others_still_begin(parts, play, monkeypatch):
    told = threading.Event()
    monkeypatch.setattr(warnings, "warn", lambda *_, **__: told.set())

    class Slow(Worlds):
        def begin(self, problem, seed):
            if problem.reference == 1:
                raise OSError("no room")
            assert told.wait(20)
            return super().begin(problem, seed)

    _, answers = play(Slow([Reply("", RIGHT)]), groups=(0, 1, 2))
    assert [answer.verdict.status for answer in answers] == ["crash", "right", "right"]


def test_a_world_that_fails_to_close_keeps_its_verdict_and_the_sentence_says_so(parts, play):
    class Stuck(World):
        def close(self):
            raise OSError("still open")

    class Doors(Worlds):
        def begin(self, problem, seed):
            return Stuck(self.replies, problem, seed)

    with pytest.warns(UserWarning, match=r"Doors\.close raised OSError: still open .* was over and keeps its reward"):
        batch, answers = play(Doors([Reply("", RIGHT)]), groups=(0, 1))
    assert [answer.verdict.status for answer in answers] == ["right", "right"] and batch.reward.tolist() == [1, 1]


@pytest.mark.parametrize(
    ("begun", "said"),
    [
        (None, "returned None, which has no method step"),
        ("text", "returned 'text', which has no method step"),
        (SimpleNamespace(step=lambda text: Reply("", RIGHT)), "which has no method close"),
    ],
)
def test_what_is_no_episode_costs_its_own_answer_alone(parts, play, begun, said):
    class Odd(Worlds):
        def begin(self, problem, seed):
            return begun if problem.reference == 2 else super().begin(problem, seed)

    with pytest.warns(UserWarning, match=rf"Odd\.begin raised TypeError: begin .*{said}"):
        _, answers = play(Odd([Reply("", RIGHT)]), groups=(0, 1, 2))
    assert [answer.verdict.status for answer in answers] == ["right", "crash", "right"]


def test_an_error_whose_sentence_is_another_each_time_is_said_once(parts, play):
    names = iter(range(99))

    def fail():
        raise RuntimeError(f"call {next(names)} failed")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, answers = play(Worlds([fail]), groups=(0, 1, 2, 3), count=2)
    assert [answer.verdict.status for answer in answers] == ["crash"] * 8
    assert sum("step raised RuntimeError: call" in str(one.message) for one in caught) == 1


def test_no_text_is_encoded_twice_and_nothing_that_was_written_once(parts, monkeypatch):
    tokenizer, encoded = AutoTokenizer.from_pretrained(parts.model), []
    encode = tokenizer.encode
    monkeypatch.setattr(tokenizer, "encode", lambda text, **rest: encoded.append(text) or encode(text, **rest))
    prompts = PromptEncoder(tokenizer, False, None, (), {})
    assert prompts.appended == 0
    task = Worlds(lambda problem: [*(Reply(f"{turn}{problem.reference};") for turn in "567"), Reply("", RIGHT)], ";")
    generator = RolloutGenerator(task, scripted(parts, "3;"), prompts, 0, parts.turns())
    assert not generator.player.framing.prepends
    encoded.clear()
    decoding = parts.decoding(max_tokens=40, stop=";")
    batch, _ = generator.generate(task.problems("train")[:2], [0, 1], 2, decoding, "train")
    assert text(parts, batch.tokens[3].tolist()) == "2+2=3;52;3;62;3;72;3;"
    observed = [f"{turn}{problem};" for turn in "567" for problem in (1, 1, 2, 2)]
    assert encoded[:2] == ["1+1=", "2+2="]  # a prompt for its group, an observation where it is read
    assert sorted(encoded[2:]) == sorted(observed)


def test_a_world_that_hangs_is_left_behind_and_told_to_close(parts, play):
    ends = threading.Event()
    task = Worlds(lambda problem: [ends.wait] if problem.reference == 2 else [Reply("", RIGHT)])
    task.close = lambda: None
    with pytest.warns(UserWarning, match="did not return within"):
        _, answers = play(task, groups=(0, 1, 2, 3), seconds=0.2, workers=1)
    ends.set()
    assert [answer.verdict.status for answer in answers] == ["right", "budget", "right", "right"]
    assert [one.closed for one in task.episodes] == [1] * 4


def test_episodes_are_closed_where_the_sampler_fails(parts, play):
    task, sampler = Worlds([Reply("5;")], stop=";"), scripted(parts, "3;")
    sampler.answers = {}
    with pytest.raises(KeyError):
        play(task, sampler, groups=(0, 1))
    assert [one.closed for one in task.episodes] == [1, 1]


def test_a_megabyte_is_cut_to_what_may_be_read(parts, play):
    task = Worlds([Reply("1234567890" * 100_000 + "+9"), Reply("", RIGHT)], stop=";")
    batch, _ = play(task, scripted(parts, "3;"), max_tokens=4)
    assert text(parts, batch.tokens[0].tolist()) == "1+1=3;12345678567890+93;"


def test_special_tokens_in_an_observation_stay_text(parts, play):
    task = Worlds([Reply("<eos>"), Reply("", RIGHT)], stop=";")
    batch, _ = play(task, scripted(parts, "3;"), max_tokens=4)
    assert 1 not in batch.tokens[0].tolist()


@pytest.mark.parametrize("said", ["\ud800", "5\udfff", "\ud83d\ude00", "\x00", "\x1b[31m5", "5;5;", ";", "\u202e", ""])
def test_any_text_is_read_and_never_learnt_from(parts, play, said):
    task = Worlds([Reply(said), Reply("", RIGHT)], stop=";")
    batch, answers = play(task, scripted(parts, "3;"), groups=(0, 1), max_tokens=4)
    assert [answer.verdict for answer in answers] == [RIGHT, RIGHT]
    for row, mask in zip(batch.tokens, batch.mask, strict=True):
        assert text(parts, row[mask].tolist()) == "3;3;"


@pytest.mark.parametrize("wrote", ["", "$", ";", "3$"])
def test_a_turn_of_no_token_or_of_its_end_alone_is_heard(parts, play, wrote):
    task = Worlds([Reply("5;"), Reply("", RIGHT)], stop=";")
    batch, answers = play(task, scripted(parts, wrote), max_tokens=6)
    assert answers[0].verdict == RIGHT and len(task.episodes[0].heard) == 2
    assert text(parts, batch.tokens[0][batch.mask[0]].tolist()) == 2 * wrote


def test_what_an_episode_does_to_its_problem_is_its_own_affair(play):
    problem, seen = Problem("1+1=", [2]), []

    class One(Worlds):
        def problems(self, split):
            return [problem]

    def spoil(given):
        given.reference.append("spoilt")
        seen.append(given.reference)
        return [Reply("", RIGHT)]

    play(One(spoil), count=3)
    assert seen == [[2, "spoilt"]] * 3 and problem.reference == [2]


def test_one_episode_for_two_answers_is_refused_and_closed(play):
    shared = World([Reply("", RIGHT)], Problem("1+1=", 2), 0)

    class Shared(Worlds):
        def begin(self, problem, seed):
            return shared

    with pytest.raises(ValueError, match=r"Shared\.begin returned the same episode for two answers"):
        play(Shared(None), count=2)
    assert shared.closed


def test_turns_without_a_token_end_by_their_number(parts, play):
    batch, answers = play(Worlds([Reply("")], stop=";"), scripted(parts, ""), turns=3)
    assert answers[0].verdict.status == "budget" and not batch.mask.any()


def test_a_turn_without_action_or_answer_marks_its_row(parts, play):
    task = Worlds(lambda problem: [Reply("5;", void=problem.reference == 1), Reply("", RIGHT)], stop=";")
    batch, answers = play(task, scripted(parts, "3;"), groups=(0, 1))
    assert batch.void.tolist() == [True, False] == [one.played.void for one in answers]


def test_what_the_world_says_to_a_cut_turn_holds(parts, play):
    batch, answers = play(Worlds([Reply("", RIGHT)]), scripted(parts, "3333"), max_tokens=2)
    assert answers[0].verdict == RIGHT and bool(batch.truncated[0])


def test_seeds_of_turns_and_worlds_are_those_of_the_answer_alone(parts, play):
    def seeds(groups, **settings):
        task, sampler = Worlds([Reply("5;"), Reply("", RIGHT)], stop=";"), scripted(parts, "3;")
        asked, write = [], sampler.write
        sampler.write = lambda requests, decoding: asked.append([r.seed for r in requests]) or write(requests, decoding)
        play(task, sampler, groups=groups, count=2, **settings)
        worlds = {(one.problem.reference, one.seed) for one in task.episodes}
        return asked, worlds

    asked, worlds = seeds((0, 1))
    assert asked[1] == [seed_of(f"0/train/{group}/{child}/1") for group in (0, 1) for child in (0, 1)]
    assert worlds == {(g + 1, seed_of(f"0/train/{g}/{c}/world")) for g in (0, 1) for c in (0, 1)}
    alone, mine = seeds((1,))
    assert alone[1] == asked[1][2:] and mine == {world for world in worlds if world[0] == 2}
    assert len(seeds((0, 1), shared_world=True)[1]) == 2
    assert all(0 <= seed < 2**63 for seed in asked[1]) and seeds((0, 1), seed=1)[0][1] != asked[1]


def test_rows_do_not_depend_on_how_many_step_at_a_time_nor_on_what_else_is_played(parts, play):
    task = Calculator(numbers=3, largest=9, limit=99, held_out=0.1, seed=0)
    sampler = TransformersSampler(parts.model, "float32", "cpu", 64, 64)
    sampler.start()
    settings = {"groups": (0, 1, 2, 3), "count": 4, "turn_tokens": 4}
    first, _ = play(task, sampler, workers=1, **settings)
    again, _ = play(task, sampler, workers=4, **settings)
    assert torch.equal(first.tokens, again.tokens) and torch.equal(first.mask, again.mask)
    alone, _ = play(task, sampler, workers=4, **(settings | {"groups": (2,)}))
    mine = first[first.group == 2]
    assert mine.tokens[mine.mask].tolist() == alone.tokens[alone.mask].tolist()


def test_an_environment_without_budgets_is_refused(parts, play):
    task = Worlds([Reply("", RIGHT)])
    data = parts.rollouts(parts.scripted(parts.some_right), task=task)
    with pytest.raises(ValueError, match=r"rollout\.turns does not say"):
        data.check_problems()


def test_another_stop_than_the_environments_is_refused(parts):
    task = Worlds([Reply("", RIGHT)], stop=";")
    with pytest.raises(ValueError, match=r"rollout\.decoding\.stop='=' is not what ends a turn of the task, ';'"):
        parts.rollouts(parts.scripted(parts.some_right), task=task, decoding=parts.decoding(stop="="))
    data = parts.rollouts(parts.scripted(parts.some_right), task=task)
    assert data.decoding.stop == data.evaluation.decoding.stop == ";"


def test_a_context_has_room_for_what_is_read(parts):
    task = Worlds([Reply("", RIGHT)])
    data = parts.rollouts(parts.scripted(parts.some_right), task=task, turns=parts.turns(turns=3))
    data.check_context(4 + 6 + 2 * 16)
    with pytest.raises(ValueError, match=r"max_tokens=6 and 32 of observations .* raise that to 42"):
        data.check_context(41)
