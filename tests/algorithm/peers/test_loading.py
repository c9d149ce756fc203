"""What loading the peers leaves behind: their files, and nothing in the place of what they depend on."""

import builtins
import os
import sys

import pytest
import torch

FIXTURES = ["core_algos", "rollout_corr", "trl_utils", "trl_grpo", "liger_grpo"]


@pytest.mark.slow
@pytest.mark.parametrize("fixture", FIXTURES)
def test_a_peer_is_its_own_file_and_changes_nothing_around_it(fixture: str, request: pytest.FixtureRequest):
    before = builtins.__import__, list(sys.path), dict(os.environ)
    module = request.getfixturevalue(fixture)
    assert str(module.__file__).endswith(module.__name__.replace(".", "/") + ".py")
    assert (builtins.__import__, sys.path, dict(os.environ)) == before
    assert not [name for name, one in sys.modules.items() if type(one).__name__ == "Absent"]


def test_what_is_absent_cannot_be_used(rollout_corr):
    with pytest.raises(ModuleNotFoundError, match=r"tensordict.* is not installed"):
        rollout_corr.DataProto.from_dict(tensors={"logp": torch.zeros(1, 2)})
