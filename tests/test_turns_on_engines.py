"""Episodes of many turns on real engines: on two ranks whose episodes end apart, and over vLLM.

Over a server of vLLM they are played by sampler/vllm/test_server.py.
"""

import json
from pathlib import Path

import pytest
from fixtures.calculator import SHIPPED, check_calculator, started
from fixtures.models import COLOCATED

from isentropic.sampler.hf import TransformersSampler
from isentropic.sampler.vllm.colocated import VllmSampler, available

SCRIPT = Path(__file__).with_name("turns_on_two_ranks.py")

needs_vllm = pytest.mark.skipif(not available(), reason="vLLM is not installed")


@pytest.mark.slow
def test_ranks_whose_episodes_end_after_one_and_six_turns_do_not_wait_for_each_other(
    forks, script, tiny_model, tmp_path
):
    """On two with vLLM it is tried by sampler/vllm/test_colocated.py."""
    for rank in forks(SCRIPT, *(([tiny_model, tmp_path, rank], {}) for rank in range(2))):
        assert rank.returncode == 0, rank.stderr
    alone = script(SCRIPT)
    sampler = TransformersSampler(tiny_model, "float32", "cpu", 64, 64)
    sampler.start()
    whole = [alone.described(batch) for batch in alone.played(sampler, tiny_model)]
    for rank in range(2):
        said = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert said["turns"] == [7, 7]  # 1 on the one, 6 on the other
        assert [batch["rows"] for batch in said["batches"]] == [batch["rows"] for batch in whole[rank::2]]


def test_the_calculator_is_played_with_transformers(parts):
    check_calculator(parts, started(TransformersSampler(SHIPPED, "float32", "cpu", 64, 64)))


@pytest.mark.slow
@needs_vllm
def test_the_calculator_is_played_over_vllm_in_process(parts):
    sampler = VllmSampler(SHIPPED, **(COLOCATED | {"max_model_len": 64}))
    try:
        check_calculator(parts, started(sampler))
    finally:
        sampler.stop()
