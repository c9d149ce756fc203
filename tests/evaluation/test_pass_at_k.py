from itertools import combinations

import pytest
import torch
import torch.multiprocessing as mp
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics import MetricCollection

from isentropic.evaluation.avg_at_k import AvgAtK
from isentropic.evaluation.pass_at_k import PassAtK


def by_all_subsets(flags, k):
    draws = list(combinations(flags, k))
    return sum(any(draw) for draw in draws) / len(draws)


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4), st.integers(1, 6))
def test_it_is_the_share_of_all_subsets_with_a_right_one(problems, k):
    metric = PassAtK(k, 10)
    metric.update(torch.tensor(problems).flatten(), torch.arange(len(problems)).repeat_interleave(6))
    truth = sum(by_all_subsets(flags, k) for flags in problems) / len(problems)
    assert metric.compute()[f"pass@{k}"].item() == pytest.approx(truth)


def test_one_right_of_four_is_certain_at_four_where_drawing_with_replacement_says_0_684():
    metric = PassAtK(4, 10)
    metric.update(torch.tensor([True, False, False, False]), torch.zeros(4, dtype=torch.long))
    assert metric.compute()["pass@4"] == 1


def test_it_stays_exact_for_many_completions():
    metric = PassAtK(512, 10)
    metric.update(torch.arange(1024) < 1, torch.zeros(1024, dtype=torch.long))
    assert metric.compute()["pass@512"].item() == pytest.approx(0.5, abs=1e-12)


def test_at_one_it_is_the_average():
    flags, group = torch.tensor([1, 0, 0, 1, 1, 1]).bool(), torch.tensor([5, 5, 2, 2, 9, 9])
    scores = MetricCollection({"pass": PassAtK(1, 50), "avg": AvgAtK(1, 50)})
    scores.update(flags, group)
    value = scores.compute()
    assert set(value) == {f"{name}{end}" for name in ("pass@1", "avg@1") for end in ("", "_low", "_high")}
    assert value["pass@1"] == value["avg@1"] and value["pass@1_low"] == value["avg@1_low"]


def problem(number):
    flags = torch.rand(4, generator=torch.Generator().manual_seed(number)) < 0.1 + 0.2 * number
    return flags, torch.full((4,), number)


def score(numbers):
    scores = MetricCollection({"pass": PassAtK(2, 100), "avg": AvgAtK(2, 100)})
    for number in numbers:
        scores.update(*problem(number))
    return {name: value.item() for name, value in scores.compute().items()}


SHARES = {
    "a padded last problem": ([0, 2, 4], [1, 3, 0]),
    "uneven": ([0, 1, 2, 3], [4]),
    "a rank without any": ([0, 1, 2, 3, 4], []),
}


def on_rank(rank, file, results):
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    for name, shares in SHARES.items():
        results[name, rank] = score(shares[rank])
    torch.distributed.destroy_process_group()


def test_two_ranks_score_as_one(tmp_path):
    with mp.Manager() as manager:
        results = manager.dict()
        mp.start_processes(on_rank, (tmp_path / "store", results), nprocs=2, start_method="fork")
        assert dict(results) == {(name, rank): score(range(5)) for name in SHARES for rank in range(2)}
