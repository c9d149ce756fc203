import pytest
import torch

from isentropic.evaluation.avg_at_k import AvgAtK


def judged(metric, verdicts):
    """verdicts: problem number → one flag per completion."""
    for group, flags in verdicts.items():
        metric.update(torch.tensor(flags, dtype=torch.bool), torch.full((len(flags),), group))
    return metric


def test_each_problem_counts_the_same_whatever_the_number_of_its_completions():
    value = judged(AvgAtK(k=2, resamples=10), {7: [1, 0], 3: [1, 1, 1, 1]}).compute()
    assert value["avg@2"].item() == pytest.approx(0.75)


def test_the_order_and_cut_of_updates_do_not_matter():
    flags, group = torch.tensor([1, 0, 0, 1, 1, 1]).bool(), torch.tensor([5, 5, 2, 2, 9, 9])
    whole, parts = AvgAtK(2, 100), AvgAtK(2, 100)
    whole.update(flags, group)
    for row in [4, 0, 3, 1, 5, 2]:
        parts.update(flags[row : row + 1], group[row : row + 1])
    assert whole.compute() == parts.compute()


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    draw = torch.Generator().manual_seed(1)
    covered = 0
    for _ in range(200):
        chance = torch.rand(60, generator=draw)  # of each problem; the mean over problems is 1/2
        flags = torch.rand(60, 8, generator=draw) < chance[:, None]
        metric = AvgAtK(8, 200)
        metric.update(flags.flatten(), torch.arange(60).repeat_interleave(8))
        value = metric.compute()
        assert value["avg@8_low"] <= value["avg@8"] <= value["avg@8_high"]
        covered += bool(value["avg@8_low"] <= 0.5 <= value["avg@8_high"])
    assert 180 <= covered <= 199


def test_a_second_evaluation_starts_from_nothing():
    metric = judged(AvgAtK(1, 10), {0: [1]})
    assert metric.compute()["avg@1"] == 1
    metric.reset()
    assert judged(metric, {0: [0]}).compute()["avg@1"] == 0


def test_too_few_completions_are_an_error_that_says_so():
    with pytest.raises(ValueError, match=r"avg@8 needs 8 completions of every problem, one has 2"):
        judged(AvgAtK(8, 10), {0: [1, 0], 1: [1] * 8}).compute()


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_no_completions_are_an_error():
    with pytest.raises(ValueError, match="no completions"):
        AvgAtK(8, 10).compute()


@pytest.mark.parametrize("k, resamples", [(0, 10), (8, 0)])
def test_sizes_below_one_are_refused(k, resamples):
    with pytest.raises(ValueError, match="at least 1"):
        AvgAtK(k, resamples)


def test_of_several_sets_each_is_scored_and_all_weigh_the_same():
    metric = AvgAtK(k=1, resamples=200)
    metric.sets = {"aime24": range(0, 2), "math500[4]": range(10, 14)}
    value = judged(metric, {0: [1], 1: [1], 10: [1], 11: [0], 12: [0], 13: [0]}).compute()
    assert set(value) == {
        f"{name}{bound}" for name in ("avg@1", "aime24/avg@1", "math500[4]/avg@1") for bound in ("", "_low", "_high")
    }
    assert (value["aime24/avg@1"], value["math500[4]/avg@1"]) == (1.0, 0.25)
    assert value["avg@1"] == pytest.approx(0.625)  # not 3 of 6
    assert value["avg@1_low"] <= 0.625 <= value["avg@1_high"] < 1
    assert metric.logged() == ["avg@1", "aime24/avg@1", "math500[4]/avg@1"]


def test_one_set_with_a_name_scores_under_both_names():
    metric, plain = AvgAtK(k=1, resamples=200), AvgAtK(k=1, resamples=200)
    metric.sets = {"math500[128]": range(0, 3)}
    value = judged(metric, {0: [1], 1: [0], 2: [0]}).compute()
    alone = judged(plain, {0: [1], 1: [0], 2: [0]}).compute()
    assert all(value[name] == alone[name] == value[f"math500[128]/{name}"] for name in alone)
