import json
from pathlib import Path

import pytest
import torch

from isentropic.policy.batching.micro_batches import micro_batches
from isentropic.policy.batching.packing import prompts_of
from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.model.layers import CHECKPOINTING


@pytest.fixture
def rows(rollout):
    torch.manual_seed(0)
    return rollout.tokens, rollout.mask, torch.rand(rollout.mask.shape)


def learnt(path, rows, dtype="float32", packing=True, checkpointing="none", compiled=False, tokens=None, share=False):
    """Log-probs and entropies, and the gradient of a weighted sum of them."""
    ids, mask, weight = rows
    model = LanguageModel(ModelSettings(path, dtype, 64, packing, checkpointing, compiled, share))
    values = torch.zeros(2, *mask.shape)
    with model.mixed_precision():
        for micro in micro_batches(mask, None, tokens, model.packed, prompts_of(ids, mask) if share else None):
            logp, entropy, _ = model(ids[micro.rows], mask[micro.rows], micro.width, 0.7, "gradient", micro.packed)
            ((logp + 0.1 * entropy) * weight[micro.rows]).sum().backward()
            values[:, micro.rows] = torch.stack([logp, entropy]).detach()
    return values, torch.cat([p.grad.flatten() for p in model.parameters()])


def same(one, other, rtol):
    (values, gradient), (expected, slope) = one, other
    torch.testing.assert_close(values, expected, atol=rtol, rtol=rtol)
    assert (gradient - slope).norm() <= rtol * slope.norm()


@pytest.mark.parametrize("tokens", [None, 20, 40])
@pytest.mark.parametrize("checkpointing", CHECKPOINTING)
def test_packed_is_padded_to_float_noise_however_lines_are_cut_and_layers_keep(tiny_model, rows, checkpointing, tokens):
    padded = learnt(tiny_model, rows, packing=False)
    same(learnt(tiny_model, rows, checkpointing=checkpointing, tokens=tokens), padded, 1e-5)


@pytest.mark.parametrize("checkpointing", CHECKPOINTING)
def test_in_bf16_too_what_layers_keep_changes_nothing(tiny_model, rows, checkpointing):
    kept = learnt(tiny_model, rows, "bfloat16")
    same(learnt(tiny_model, rows, "bfloat16", checkpointing=checkpointing), kept, 1e-6)
    same(kept, learnt(tiny_model, rows), 0.05)


def test_what_stands_behind_a_row_does_not_matter_to_a_line(tiny_model, rows):
    ids, mask, weight = rows
    garbage = torch.where(mask | (ids > 0), ids, 7)
    same(learnt(tiny_model, (garbage, mask, weight)), learnt(tiny_model, rows), 0)


COMPILED = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from torch._dynamo.utils import counters
from test_layers import learnt

torch.manual_seed(0)
lengths, column = torch.tensor([290, 300, 310] * 5), torch.arange(320)
mask = (column >= 5) & (column < lengths[:, None])
ids = torch.randint(2, 20, mask.shape)
ids[:, :5] = ids[torch.arange(15) // 4 * 4, :5]
rows = ids, mask, torch.rand(mask.shape)
plain = learnt(sys.argv[2], rows)
for share in (False, True):
    torch._dynamo.reset()
    counters.clear()
    values, gradient = learnt(sys.argv[2], rows, "float32", True, "selective", True, 1200, share)
    print(json.dumps({
        "graphs": counters["stats"]["unique_graphs"],
        "traces": counters["aot_autograd"]["total"],
        "breaks": sum(counters["graph_break"].values()),
        "values": float((values - plain[0]).abs().max()),
        "gradient": float((gradient - plain[1]).norm() / plain[1].norm()),
    }))
"""


@pytest.mark.slow
def test_compiled_layers_learn_what_the_others_do_from_one_set_of_kernels(tiny_model, forks, tmp_path):
    """With prompts of their own and shared; in another process, as compilers do not see through checks of types."""
    (tmp_path / "compiled.py").write_text(COMPILED)
    (result,) = forks(tmp_path / "compiled.py", ([Path(__file__).parent, tiny_model], {}))
    assert result.returncode == 0, result.stderr
    each, shared = map(json.loads, result.stdout.splitlines()[-2:])
    for found in (each, shared):
        assert found["graphs"] == found["traces"] == 1 and found["breaks"] == 0
        assert found["values"] < 1e-5 and found["gradient"] < 1e-5


WORKERS = """
import torch._inductor.config
from isentropic.policy.model.layers import start_compile_workers
from torch._inductor.async_compile import AsyncCompile

torch._inductor.config.compile_threads = 1  # as vLLM leaves it
start_compile_workers(2)
print(AsyncCompile._ready_future.result(timeout=120))
"""


@pytest.mark.slow
def test_processes_that_make_kernels_start_before_the_first_forward(forks, tmp_path):
    (tmp_path / "workers.py").write_text(WORKERS)
    (result,) = forks(tmp_path / "workers.py", ([], {"TORCHINDUCTOR_COMPILE_THREADS": "1"}))
    assert result.stdout.split() == ["ready"], result.stderr


@pytest.mark.slow
def test_compiled_and_checkpointed_weights_keep_their_names(tiny_model):
    plain, arranged = (
        LanguageModel(ModelSettings(tiny_model, "float32", 64, True, *how)).state_dict()
        for how in (("none", False), ("full", True))
    )
    assert plain.keys() == arranged.keys()


def test_a_model_that_cannot_be_packed_reads_a_rectangle_and_says_why(tmp_path, rows):
    from transformers import BloomConfig, BloomForCausalLM

    BloomForCausalLM(BloomConfig(vocab_size=24, hidden_size=32, n_layer=2, n_head=2)).save_pretrained(tmp_path)
    reason = "reads padded rows in spite of policy.model.packing=true, as transformers gives it no choice of attention"
    with pytest.warns(UserWarning, match=reason):
        found = learnt(str(tmp_path), rows)
    same(found, learnt(str(tmp_path), rows, packing=False), 0)


def test_packed_rows_of_layers_with_a_window_learn_what_padded_ones_do(tmp_path, rows):
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"vocab_size": 24, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
    window = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1, "initializer_range": 0.2}
    config = Qwen2Config(num_hidden_layers=2, num_key_value_heads=1, **sizes, **window)
    Qwen2ForCausalLM(config).save_pretrained(tmp_path)
    same(learnt(str(tmp_path), rows), learnt(str(tmp_path), rows, packing=False), 1e-5)


def test_settings_that_do_not_exist_are_refused(tiny_model):
    with pytest.raises(ValueError, match="activation_checkpointing=some is not one of none, selective, full"):
        ModelSettings(tiny_model, "float32", 64, True, "some", False)
