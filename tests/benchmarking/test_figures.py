"""Two prompts, three answers to each, ten and twenty tokens; numbers to redo on paper."""

import pytest

from isentropic.benchmarking.figures import Shapes, memory, mfu, rates, rows, seconds
from isentropic.planning.architecture import Architecture

SHAPES = Shapes(prompts=2, group_size=3, prompt_tokens=10, response_tokens=20, updates=1)
TOOK = {"step": 6.0, "sample": 3.0, "update": 2.0}


def lines(*steps: float):
    return [{"throughput/step_seconds": step, "throughput/sample_seconds": step / 2} for step in steps]


def test_the_first_rollout_stands_apart_from_the_median():
    found = seconds(lines(100, 4, 8, 6))
    assert found["first"] == {"step": 100, "sample": 50}
    assert found["median"] == {"step": 6, "sample": 3}
    assert len(found["steps"]) == 4


def test_a_single_rollout_is_its_own_median():
    assert seconds(lines(7))["median"]["step"] == 7


def test_rates_count_prompts_but_where_only_answers_are_written():
    assert (SHAPES.answers, SHAPES.written, SHAPES.tokens) == (6, 120, 180)
    assert rates(SHAPES, TOOK, ranks=2) == {"step": 15, "rollout": 20, "training": 45}


def test_mfu_is_six_operations_for_each_parameter_and_token():
    model = Architecture("llama", 1000, 10, 20, 2, 4, 2, 5, tied=False, biased=False, context=100)
    found = mfu(model, SHAPES, TOOK, ranks=2, peak=1e6)
    assert found["all parameters"] == pytest.approx(6 * model.parameters * 180 / 2.0 / 2e6)
    assert found["without embeddings"] == pytest.approx(6 * (model.parameters - 2 * 1000 * 10) * 180 / 2.0 / 2e6)
    attention = 3 * 6 * (2 * 2 * 20 * 30**2)  # rows, layers, width of the queries, and a row's tokens squared
    assert found["all parameters and attention"] - found["all parameters"] == pytest.approx(attention / 2.0 / 2e6)


def test_memory_is_the_most_of_all_rollouts_and_nothing_on_a_cpu():
    held = [{"memory/update_used": 3.0, "memory/slept": 1.0}, {"memory/update_used": 5.0}]
    assert memory(held) == {"update_used": 5.0, "slept": 1.0}
    assert memory(lines(1, 2)) == {}


def test_rows_of_evaluations_are_left_out(tmp_path):
    file = tmp_path / "metrics.csv"
    file.write_text("eval/avg@8,throughput/step_seconds,step\n0.5,,0\n,2.5,1\n")
    assert rows(file) == [{"throughput/step_seconds": 2.5}]
