"""What all tests share: fixtures, the order in which they run, and settings that hold at any load."""

import atexit
import contextlib
import gc
import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest
from fixtures import checks

checks.install()
gc.disable()  # until all tests are collected: a fifth of that time would go into looking for garbage
atexit.register(gc.freeze)  # and some seconds of each worker in the end
# before the package is imported
pytest_plugins = ["fixtures.covered"] if os.environ.get("COVERAGE") else []
pytest_plugins += ["fixtures.evaluations", "fixtures.hostile", "fixtures.models", "fixtures.processes"]
pytest_plugins += ["fixtures.forks", "fixtures.runs"]

TESTS = Path(__file__).parent
# What is started in the background or by nohup ignores these, and so would all that tests start, which must hear them.
for _signal in (signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, signal.default_int_handler if _signal is signal.SIGINT else signal.SIG_DFL)
# Files that take 20 seconds or more, the longest first.
SLOW = [
    "test_train.py",
    "sampler/vllm/test_server.py",
    "docs/test_site.py",
    "docs/test_commands.py",
    "task/test_reasoning_gym.py",
    "launching/test_sweep.py",
    "test_turns_killed.py",
    "test_turns_on_engines.py",
    "test_benchmarks.py",
    "task/test_long_texts.py",
    "sampler/vllm/test_colocated.py",
    "test_add_a_method.py",
    "test_judge.py",
    "policy/model/test_layers.py",
    "config/test_loader.py",
    "task/test_audit.py",
    "test_families.py",
    "commands/test_new.py",
    "algorithm/test_ranks.py",
    "commands/test_methods_table.py",
    "test_configs.py",
    "test_notebooks.py",
    "commands/test_preflight.py",
    "test_ranks.py",
    "commands/test_tune.py",
    "commands/test_plan.py",
    "sampler/vllm/test_completions.py",
    "test_wheel.py",
    "test_experiments.py",
    "policy/model/test_fused_logprobs.py",
    "test_your_data.py",
    "algorithm/test_composition.py",
    "commands/test_report.py",
    "callbacks/test_watchdog.py",
    "evaluation/test_grade_by_rule.py",
    "commands/test_export.py",
    "task/test_equality.py",
    "tools/test_cage.py",
    "commands/test_audit_task.py",
    "task/test_countdown.py",
    "policy/test_module.py",
    "task/test_judge_pool.py",
    "task/test_problem_set.py",
    "tools/test_console.py",
    "task/test_math_dataset.py",
    "commands/test_contamination.py",
    "commands/test_benchmark.py",
    "sampler/vllm/test_fast_scheduler.py",
    "test_bad_input.py",
    "algorithm/test_invariances.py",
    "algorithm/test_degenerate.py",
    "reporting/render/test_page.py",
]


# Whoever configures logging closes the handlers there are, and absl's closes its stream with it: in a test, pytest's.
with contextlib.suppress(ImportError):
    from absl import logging as absl_logging

    absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__

# how fast the machine is just then is no property of the code
hypothesis.settings.register_profile("any load", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("any load")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, or one worker would end long after the other."""
    places = {TESTS / name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: places.get(item.path, len(SLOW)))


def pytest_collection_finish() -> None:
    """What was imported stays: each full collection of garbage would go over all of it, a twentieth of the time."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # 700 new objects are few: a config alone makes some ten thousand, and keeps them
    gc.enable()
