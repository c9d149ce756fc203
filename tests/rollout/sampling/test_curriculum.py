import pytest

from isentropic.rollout.sampling.curriculum import Curriculum
from isentropic.rollout.sampling.shuffled import place


def test_it_grows_from_the_easiest_to_the_whole_set(problems):
    order = Curriculum(column="difficulty", start=0.2, prompts=400).order(problems, position=0, size=10, seed=0)
    hardest = [100 - min(order(turn) for turn in range(s, s + 50)) for s in range(0, 400, 50)]
    assert hardest == sorted(hardest) and hardest[0] <= 31 and 80 < hardest[-1] <= 100
    assert len({order(turn) for turn in range(20)}) >= 12  # spread over what is open
    after = [order(turn) for turn in range(400, 500)]
    assert after == [place(i, 100, 0) for i in range(100)] and sorted(after) == list(range(100))


def test_settings_that_are_no_course_are_refused(problems):
    with pytest.raises(ValueError, match=r"rollout\.sampling\.start=0\.0 is a share"):
        Curriculum(column="difficulty", start=0.0, prompts=1)
    with pytest.raises(ValueError, match=r"rollout\.sampling\.prompts=0 must be at least 1"):
        Curriculum(column="difficulty", start=0.5, prompts=0)
    with pytest.raises(ValueError, match=r"rollout\.sampling\.column=kind is 'sum'"):
        Curriculum(column="kind", start=0.5, prompts=1).check(problems)
