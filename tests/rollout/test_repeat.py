import time
from types import SimpleNamespace

import pytest

from isentropic.rollout.repeat import unrepeatable
from isentropic.task import Problem, Verdict
from isentropic.task.calculator import Calculator
from isentropic.task.environment import Environment, Reply

PROBLEM = Problem("3,8,5,2>24:", ((3, 8, 5, 2), 24))


class World(Environment):
    """Says what it is given to say of the number of its turn."""

    def __init__(self, say):
        self.say, self.closed = say, 0

    def problems(self, split):
        return [PROBLEM]

    def begin(self, problem, seed):
        turns = iter(range(9))
        return SimpleNamespace(step=lambda text: self.say(next(turns)), close=self.close_one)

    def close_one(self):
        self.closed += 1


def test_a_world_that_reads_a_clock_is_told_of_with_the_turn(parts):
    task = World(lambda turn: Reply("5;" if turn == 0 else f"{time.perf_counter_ns()};"))
    said = unrepeatable(task, parts.turns(), PROBLEM, ["3;", "4;", "5;"])
    assert said is not None and said.startswith("World says something else to turn 2") and task.closed == 2


def test_a_world_that_follows_from_its_turns_is_left_alone_however_long_they_take(parts):
    task = World(lambda turn: Reply(f"{turn};", calls=1, seconds=time.perf_counter()))
    assert unrepeatable(task, parts.turns(), PROBLEM, ["3;", "4;"]) is None
    calculator = Calculator(numbers=4, largest=9, limit=99, held_out=0.1, seed=0)
    assert unrepeatable(calculator, parts.turns(), PROBLEM, ["3*8=", "5-2=", "24+3="]) is None


@pytest.mark.parametrize("end", [Reply("", Verdict(1.0, True, "right")), None])
def test_what_a_world_raises_is_said_where_it_is_played(parts, end):
    def say(turn):
        if end is None:
            raise RuntimeError
        return end

    task = World(say)
    assert unrepeatable(task, parts.turns(), PROBLEM, ["3;"]) is None and task.closed == 2


def test_what_a_world_does_to_its_problem_is_neither_kept_nor_told_of(parts):
    problem = Problem("1+1=", [2])

    class Spoils(World):
        def begin(self, given, seed):
            given.reference.append(len(given.reference))
            return SimpleNamespace(step=lambda text: Reply(f"{given.reference};"), close=self.close_one)

    assert unrepeatable(Spoils(None), parts.turns(), problem, ["3;"]) is None and problem.reference == [2]
