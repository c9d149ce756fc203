import pytest
from fixtures.peers import beside

from isentropic.task import Verdict
from isentropic.task.gymnasium import Gymnasium

DOORS = '''
from random import Random


class Doors:
    """reset and step as gymnasium.Env has them, over text."""

    open = 0

    def __init__(self, doors=3, render_mode=None):
        self.doors = doors
        Doors.open += 1

    def reset(self, *, seed=None, options=None):
        self.right, self.steps = Random(seed).randrange(self.doors), 0
        return f"{self.doors} doors, hint {seed}", {}

    def step(self, action):
        self.steps += 1
        if action == str(self.right):
            return "open", 1.0, True, False, {}
        return "shut", -0.25, False, self.steps == 3, {}

    def close(self):
        Doors.open -= 1


class Numbers(Doors):
    def reset(self, *, seed=None, options=None):
        return 3, {}


class Chance(Doors):
    count = 0

    def reset(self, *, seed=None, options=None):
        Chance.count += 1
        return f"{Chance.count}", {}


def make(id, **settings):
    return {"Doors-v0": Doors}[id](**settings)
'''


@pytest.fixture
def made(tmp_path):
    file = tmp_path / "doors.py"
    file.write_text(DOORS)

    def make(name="Doors", **settings):
        usual = {"options": {}, "template": "Choose. {question}", "solved": 0.5, "held_out": 0.2, "seed": 0}
        return Gymnasium(f"{file}:{name}", **(usual | settings))

    return make


def test_an_episode_goes_on_until_it_is_terminated_or_truncated(made):
    task = made(stop=";")
    problem = task.problems("train")[4]
    assert problem.prompt == f"Choose. 3 doors, hint {problem.reference}"
    episode = task.begin(problem, 7)
    wrong, right = str((episode.world.right + 1) % 3), str(episode.world.right)
    assert [episode.step(text).text for text in (f"{wrong};", wrong)] == ["shut", "shut"]
    assert episode.step(f"{right};").verdict == Verdict(0.5, True, "right")
    episode = task.begin(problem, 8)
    assert str(episode.world.right) == right  # the world is the problem's
    assert [episode.step(wrong).verdict for _ in range(3)] == [None, None, Verdict(-0.75, False, "wrong")]


def test_all_that_were_begun_are_closed(made):
    task = made()
    kind = type(task.reset(0)[0].world)
    before = kind.open
    problem = task.problems("train")[0]
    task.begin(problem, 0).close()
    assert kind.open == before


def test_a_function_may_make_it_from_options(made):
    task = made("make", options={"id": "Doors-v0", "doors": 5})
    assert task.problems("train")[0].prompt.startswith("Choose. 5 doors")


def test_splits_share_no_seed(made):
    task, other = made(), made(seed=1)
    seen = {split: {task.problems(split)[i].reference for i in range(100)} for split in ("train", "validation", "test")}
    assert not seen["train"] & (seen["test"] | seen["validation"]) and not seen["test"] & seen["validation"]
    assert task.problems("test")[:9] == other.problems("test")[:9]
    assert task.problems("train")[:9] != other.problems("train")[:9]


def test_what_cannot_be_used_is_refused(made):
    for name, settings, said in (
        ("Numbers", {}, "reset gave int where only text"),
        ("Doors", {"options": {"windows": 3}}, "does not begin: TypeError"),
        ("make", {"options": {"id": "Other"}}, "does not begin: KeyError"),
        ("Doors", {"template": "x"}, "no place for the question"),
        ("Missing", {}, "has no class or function Missing"),
    ):
        with pytest.raises(ValueError, match=said):
            made(name, **settings)
    task = made("Chance")
    with pytest.raises(ValueError, match="shows something else after each reset"):
        task.begin(task.problems("train")[0], 0)


LAKE = {"id": "FrozenLake-v1", "is_slippery": False}


@pytest.fixture
def lake():
    with beside("gymnasium"):
        yield Gymnasium("gymnasium.make", LAKE, "{question}", 1.0, 0.2, 0, stop=";")


@pytest.mark.parity
def test_the_frozen_lake_of_gymnasium_is_crossed_as_it_is(lake):
    """On its map of 4 by 4, down twice, right, down, and right twice ends at the goal."""
    problem = lake.problems("train")[0]
    assert problem.prompt == "0"
    episode = lake.begin(problem, 0)
    replies = [episode.step(f"{action};") for action in (1, 1, 2, 1, 2, 2)]
    assert [reply.text for reply in replies] == ["4", "8", "9", "13", "14", ""]
    assert replies[-1].verdict == Verdict(1.0, True, "right")
    episode.close()


@pytest.mark.parity
def test_a_hole_and_what_is_no_action_end_the_episode(lake):
    problem = lake.problems("train")[0]
    episode = lake.begin(problem, 0)
    assert [episode.step(action).verdict for action in ("1", "2")] == [None, Verdict(0.0, False, "wrong")]
    for text in ("7;", "down;", "", "9" * 5000):
        assert lake.begin(problem, 0).step(text).verdict == Verdict(0.0, False, "unparseable")


@pytest.mark.parity
def test_hands_of_blackjack_are_those_of_their_seed():
    with beside("gymnasium"):
        task = Gymnasium("gymnasium.make", {"id": "Blackjack-v1"}, "{question}", 1.0, 0.2, 0)
        shown = [task.problems("test")[place].prompt for place in range(5)]
        assert shown == [task.problems("test")[place].prompt for place in range(5)] and len(set(shown)) > 1
        assert all(len(text.split(", ")) == 3 for text in shown)
        last = task.begin(task.problems("test")[0], 0).step("0").verdict
        assert last is not None and last.reward in (-1.0, 0.0, 1.0, 1.5)
