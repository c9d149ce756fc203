"""What all tests share: fixtures, the order in which they run, and settings that hold at any load."""

import contextlib
import sys
from pathlib import Path

import hypothesis
import pytest

pytest_plugins = ["fixtures.evaluations", "fixtures.hostile", "fixtures.models", "fixtures.processes", "fixtures.runs"]

TESTS = Path(__file__).parent
# Files that take half a minute or more, the longest first.
SLOW = [
    "launching/test_sweep.py",
    "test_train.py",
    "sampler/vllm/test_server.py",
    "commands/test_preflight.py",
    "commands/test_tune.py",
    "test_add_a_method.py",
    "sampler/vllm/test_colocated.py",
    "test_notebooks.py",
    "policy/model/test_fused_logprobs.py",
    "algorithm/test_composition.py",
    "algorithm/test_ranks.py",
    "reporting/test_report.py",
    "task/test_equality.py",
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
