import os
import random

import numpy as np
import pytest
import torch

from isentropic.sampler.vllm.isolation import check_card, prepare_environment, untouched_process


def draws():
    return random.random(), np.random.rand(), torch.rand(()).item()


def test_the_random_state_after_is_that_before():
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = draws()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    with untouched_process(eager=True):
        random.seed(2), np.random.seed(2), torch.manual_seed(2)
    assert draws() == expected


def test_it_is_so_after_an_error_too():
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    expected = draws()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    with pytest.raises(OSError), untouched_process(eager=True):
        draws()
        raise OSError
    assert draws() == expected


def test_threads_and_the_function_that_sets_them_come_back():
    set_threads, threads = torch.set_num_threads, torch.get_num_threads()
    with untouched_process(eager=False):
        torch.set_num_threads(threads + 1)
        torch.set_num_threads = print
    assert torch.set_num_threads is set_threads
    assert torch.get_num_threads() == threads


def test_nothing_is_compiled_inside_when_eager():
    compiled: list[int] = []

    @torch.compile(backend=lambda graph, inputs: compiled.append(1) or graph.forward)
    def double(x):
        return 2 * x

    with untouched_process(eager=True):
        double(torch.ones(2))
    assert not compiled
    with untouched_process(eager=False):
        double(torch.ones(2))
    assert compiled


def test_what_the_user_set_stays_but_for_the_one_process(monkeypatch):
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    monkeypatch.delenv("VLLM_NO_USAGE_STATS", raising=False)
    prepare_environment()
    assert os.environ["VLLM_LOGGING_LEVEL"] == "DEBUG"
    assert os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert os.environ["VLLM_NO_USAGE_STATS"] == "1"


def test_a_policy_on_another_gpu_than_its_engine_is_refused():
    check_card(1, 1)
    with pytest.raises(ValueError, match=r"policy is on GPU 1 .* engine would be on GPU 0; choose"):
        check_card(1, 0)
