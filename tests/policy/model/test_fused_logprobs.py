"""On a GPU, or in Triton's interpreter where there is none: it must be chosen before Triton is imported."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import isentropic
from isentropic.policy.model.logprobs import entropy, row_stats, sensitivity

TRITON = Path(sys.prefix) / "peers" / "triton"  # requirements/install.py
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ROWS, DIM, VOCABULARY = 5, 16, 203
FEW, PART, ALL = 1, 3, 100  # chunks that keep next to nothing, some and all of the logits

on_kernels = pytest.mark.skipif(
    DEVICE == "cpu" and os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs a GPU or TRITON_INTERPRET=1; test_the_kernels_agree_with_the_formulas_when_interpreted sets it",
)


@pytest.mark.slow
@pytest.mark.skipif(DEVICE == "cuda" or "TRITON_INTERPRET" in os.environ, reason="they are run right here")
def test_the_kernels_agree_with_the_formulas_when_interpreted(tmp_path):
    if not TRITON.is_dir():
        pytest.skip(f"the kernels are Triton's, which is not in {TRITON}")
    (tmp_path / "triton").symlink_to(TRITON)  # alone: other packages there have names of ours
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", Path(__file__).name],
        cwd=Path(__file__).parent,
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": f"{tmp_path}"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-2000:]
    assert " passed" in run.stdout


COMPILE = """
import itertools
from triton import compile
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from isentropic.policy.model.logits_kernels import logits_grad_kernel, logits_stats_kernel

POINTERS = {"logits": "*bf16", "targets": "*i64", "stride": "i32", "width": "i32", "first": "i32", "rows": "i32"}
for kernel, flags, sizes in (
    (logits_stats_kernel, ("ENTROPY", "SENSITIVITY", "BEGINS", "ENDS"), {"LANES": 512, "WIDE": 8}),
    (logits_grad_kernel, ("ENTROPY",), {"BLOCK": 2048}),
):
    names = kernel.arg_names
    signature = {
        name: "constexpr" if name.isupper() else "fp32" if name == "scale" else POINTERS.get(name, "*fp32")
        for name in names
    }
    apart = {(at,): [["tt.divisibility", 16]] for at, name in enumerate(names) if signature[name][0] in "*i"}
    for values in itertools.product((False, True), repeat=len(flags)):
        chosen = dict(zip(flags, values))
        if chosen.get("SENSITIVITY") and not chosen["ENTROPY"]:
            continue  # `fused_stats` never asks for it alone
        source = ASTSource(kernel, signature, chosen | sizes, apart)
        made = compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
        assert "ld.global.v4.b32" in made.asm["ptx"], "logits are read 2 bytes at a time"
    for (name, _), (value, place) in kernel.used_global_vals.items():
        assert place[name] == value, f"{name} differs from itself, so that a second call would be refused"
print("compiled")
"""


@pytest.mark.slow
@pytest.mark.skipif("TRITON_INTERPRET" in os.environ, reason="interpreted, nothing is compiled")
def test_the_kernels_compile_for_a_gpu_that_is_not_there(tmp_path):
    if not TRITON.is_dir():
        pytest.skip(f"the kernels are Triton's, which is not in {TRITON}")
    for path in TRITON.parent.glob("triton*"):  # its compilers are found by what its metadata says
        (tmp_path / path.name).symlink_to(path)
    ours = Path(isentropic.__file__).parents[1]
    paths = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ours}", "TRITON_CACHE_DIR": f"{tmp_path}/cache"}
    run = subprocess.run([sys.executable, "-c", COMPILE], env=os.environ | paths, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-5000:]
    assert run.stdout == "compiled\n"


def fused(*arguments):
    from isentropic.policy.model.fused_logprobs import fused_stats

    return fused_stats(*arguments)


def linear(bias: bool = False) -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(DIM, VOCABULARY, bias=bias, device=DEVICE)


def inputs(dtype=torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    states, targets = torch.randn(ROWS, DIM) * 3, torch.randint(VOCABULARY, (ROWS,))
    targets[:2] = torch.tensor([0, VOCABULARY - 1])
    return states.to(DEVICE, dtype).requires_grad_(), targets.to(DEVICE)


def plain(states, head, targets, temperature, chunk, wanted):
    log_probs = (head(states) / temperature).log_softmax(-1)
    logp = log_probs.gather(-1, targets[:, None])[:, 0]
    h, unknown = entropy(log_probs), torch.full_like(logp, torch.nan)
    if wanted == "none":
        return logp, unknown, unknown
    return logp, h, sensitivity(log_probs, logp, h).detach() if wanted == "value" else unknown


def outcome(stats, states, head, targets, temperature, chunk, wanted):
    """Values, then gradients of a loss with a weight of its own for each row."""
    states = states.detach().requires_grad_()
    head.zero_grad()
    pull = torch.linspace(-1, 2, len(states), device=DEVICE)
    values = stats(states, head, targets, temperature, chunk, wanted)
    loss = (pull * values[0]).sum() + ((pull.flip(0) * values[1]).sum() if wanted == "gradient" else 0)
    loss.backward()
    return [*(value.detach() for value in values), states.grad, *(p.grad for p in head.parameters())]


def exact(states, head, targets, temperature, wanted):
    return outcome(plain, states.double(), copy.deepcopy(head).double(), targets, temperature, 1, wanted)


def assert_near(found, right, **tolerance):
    for ours, theirs in zip(found, right, strict=True):
        torch.testing.assert_close(ours.double(), theirs, equal_nan=True, **tolerance)


@on_kernels
@pytest.mark.parametrize("wanted", ["none", "value", "gradient"])
@pytest.mark.parametrize("chunk", [FEW, PART, ALL])
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_are_those_of_fp64(wanted, chunk, bias):
    (states, targets), head = inputs(), linear(bias)
    found = outcome(fused, states, head, targets, 0.7, chunk, wanted)
    assert_near(found, exact(states, head, targets, 0.7, wanted), atol=2e-5, rtol=1e-4)


@on_kernels
@pytest.mark.parametrize("chunk", [FEW, ALL])
def test_bf16_keeps_fp32_statistics_and_gradients_to_its_own_accuracy(chunk):
    (states, targets), head = inputs(torch.bfloat16), linear().bfloat16()
    found = outcome(fused, states, head, targets, 1.3, chunk, "gradient")
    assert [value.dtype for value in found] == [torch.float32] * 3 + [torch.bfloat16] * 2
    right = exact(states, head, targets, 1.3, "gradient")
    assert_near(found[:3], right[:3], atol=0.03, rtol=0.01)
    for ours, theirs in zip(found[3:], right[3:], strict=True):
        assert (ours.double() - theirs).norm() < 0.01 * theirs.norm()


@on_kernels
def test_under_autocast_products_are_bf16_and_the_masters_gradient_is_not():
    (states, targets), head = inputs(), linear(bias=True)
    with torch.autocast(DEVICE, torch.bfloat16):
        found = outcome(fused, states, head, targets, 1.0, PART, "gradient")
    right = exact(states, head, targets, 1.0, "gradient")
    assert_near(found[:3], right[:3], atol=0.03, rtol=0.01)
    for ours, theirs in zip(found[3:], right[3:], strict=True):
        assert ours.dtype == torch.float32 and (ours.double() - theirs).norm() < 0.01 * theirs.norm()
    assert not torch.equal(found[4], found[4].bfloat16().float())


@on_kernels
@pytest.mark.parametrize("wanted", ["value", "gradient"])
@pytest.mark.parametrize("chunk", [FEW, ALL])
def test_an_impossible_token_adds_nothing(wanted, chunk):
    (states, targets), head = inputs(), linear(bias=True)
    with torch.no_grad():
        head.bias[2:150] = float("-inf")  # whole spans
    targets[:] = torch.arange(ROWS, device=DEVICE) + 160
    found = outcome(fused, states, head, targets, 0.7, chunk, wanted)
    assert all(value.isfinite().all() for value in found[:2] + found[3:])
    assert_near(found, exact(states, head, targets, 0.7, wanted), atol=2e-5, rtol=1e-4)


@on_kernels
@pytest.mark.parametrize("chunk", [FEW, ALL])
def test_the_only_possible_token_is_certain(chunk):
    (states, targets), head = inputs(), linear(bias=True)
    with torch.no_grad():
        head.bias[:] = float("-inf")
        head.bias[7] = 0
    found = outcome(fused, states, head, torch.full_like(targets, 7), 1.0, chunk, "gradient")
    assert torch.equal(found[0], torch.zeros_like(found[0])) and torch.equal(found[1], torch.zeros_like(found[1]))
    assert all(not gradient.any() for gradient in found[3:])
    logp, _, lean = fused(states, head, torch.full_like(targets, 8), 1.0, chunk, "value")
    assert (logp == float("-inf")).all() and not lean.any()


@on_kernels
@pytest.mark.parametrize("chunk", [FEW, ALL])
@pytest.mark.parametrize("token", [0, 100, VOCABULARY - 1])
def test_a_logit_that_is_no_number_is_not_hidden(chunk, token):
    (states, targets), head = inputs(), linear(bias=True)
    with torch.no_grad():
        head.bias[token] = torch.nan
    assert all(value.isnan().all() for value in fused(states, head, targets, 1.0, chunk, "value"))


@on_kernels
def test_what_is_frozen_gets_no_gradient_and_leaves_that_of_the_rest():
    (states, targets), head = inputs(), linear()
    whole = outcome(fused, states, head, targets, 1.0, PART, "none")
    head.weight.requires_grad_(False).grad = None
    frozen = outcome(fused, states, head, targets, 1.0, PART, "none")
    assert frozen[-1] is None
    torch.testing.assert_close(frozen[3], whole[3])
    head.weight.requires_grad_(True)
    logp, _, _ = fused(states.detach(), head, targets, 1.0, PART, "none")
    (torch.linspace(-1, 2, ROWS, device=DEVICE) * logp).sum().backward()
    torch.testing.assert_close(head.weight.grad, whole[4])


@on_kernels
def test_a_tied_weight_sums_both_of_its_gradients():
    (_, targets), head = inputs(), linear()
    ids = targets.flip(0)
    gradients = []
    for stats in (fused, plain):
        head.zero_grad()
        states = torch.nn.functional.embedding(ids, head.weight)
        stats(states, head, targets, 1.0, PART, "none")[0].sum().backward()
        gradients.append(head.weight.grad.clone())
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-4)


@on_kernels
def test_no_rows_have_a_gradient_of_zeros():
    (states, targets), head = inputs(), linear(bias=True)
    empty = outcome(fused, states[:0], head, targets[:0], 1.0, PART, "gradient")
    assert [value.shape for value in empty[:4]] == [(0,), (0,), (0,), (0, DIM)]
    assert all(p.grad is not None and not p.grad.any() for p in head.parameters())


@on_kernels
def test_reading_without_gradients_gives_the_same_values():
    (states, targets), head = inputs(), linear()
    with torch.no_grad():
        read = fused(states, head, targets, 0.7, FEW, "value")
    assert not any(value.requires_grad for value in read)
    learnt = fused(states, head, targets, 0.7, FEW, "value")
    assert learnt[0].requires_grad and not learnt[1].requires_grad and not learnt[2].requires_grad
    for ours, theirs in zip(read, learnt, strict=True):
        torch.testing.assert_close(ours, theirs)


@on_kernels
def test_a_second_backward_pass_is_refused():
    (states, targets), head = inputs(), linear()
    loss = fused(states, head, targets, 1.0, ALL, "none")[0].sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="second backward pass"):
        loss.backward()


@on_kernels
@pytest.mark.skipif(DEVICE == "cpu", reason="a CPU takes the plain formulas")
def test_a_gpu_takes_the_kernels():
    (states, targets), head = inputs(), linear()
    assert "FusedStats" in type(row_stats(states, head, targets, 1.0, PART, "none")[0].grad_fn).__name__


@on_kernels
@given(
    rows=st.integers(1, 5000),
    vocabulary=st.integers(1, 3000),
    dim=st.integers(1, 300),
    chunk=st.integers(1, 5000),
    dtypes=st.sampled_from([(torch.float32,) * 2, (torch.bfloat16,) * 2, (torch.float32, torch.bfloat16)]),
    learns=st.booleans(),
)
def test_spans_cover_the_vocabulary_within_their_memory(rows, vocabulary, dim, chunk, dtypes, learns):
    from isentropic.policy.model.fused_logprobs import plan_logit_chunks

    weight = torch.empty(vocabulary, dim, dtype=dtypes[0], device="meta")
    gradient, spans = plan_logit_chunks(rows, weight, dtypes[1], chunk, learns)
    assert [0, *(span.last for span in spans)] == [*(span.first for span in spans), vocabulary]
    assert all(span.logits.shape == (rows, span.last - span.first) for span in spans)
    assert [span.kept for span in spans] == sorted((span.kept for span in spans), reverse=True)
    storages = [span.logits.untyped_storage() for span in spans]
    lodged = sum(gradient is not None and one._cdata == gradient.untyped_storage()._cdata for one in storages)
    end = 0
    for span, storage in zip(spans[:lodged], storages, strict=False):
        begin = span.logits.storage_offset() * span.logits.itemsize
        assert begin >= end and begin >= span.last * dim * gradient.itemsize, "below are the rows that come of it"
        end = begin + rows * span.logits.stride(0) * span.logits.itemsize
        assert end <= storage.nbytes()
    own = spans[lodged]
    assert own.kept and not any(span.kept for span in spans[lodged + 1 :])
    assert all(span.last - span.first <= own.last - own.first for span in spans[lodged:])
    assert storages[lodged].nbytes() <= max(chunk * vocabulary, rows * 64) * dtypes[1].itemsize
