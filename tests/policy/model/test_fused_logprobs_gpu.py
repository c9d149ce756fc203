"""What only a card shows of the head: its own bf16 products, memory, and offsets that outgrow 32 bits."""

import pytest
import torch

from isentropic.policy.model.logprobs import logits_stats, row_stats

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
ROWS, DIM, VOCABULARY = 512, 256, 50_000


def case(vocabulary=VOCABULARY, dtype=torch.bfloat16):
    torch.manual_seed(0)
    states = torch.randn(ROWS, DIM, device="cuda", dtype=torch.bfloat16).requires_grad_()
    head = torch.nn.Linear(DIM, vocabulary, bias=False, device="cuda", dtype=dtype)
    with torch.no_grad():
        head.weight.copy_((torch.randn(vocabulary, DIM, device="cuda") * 0.2).bfloat16())
    return states, head, torch.randint(vocabulary, (ROWS,), device="cuda")


def gradients(values, states, head):
    pull = torch.linspace(-1, 2, ROWS, device="cuda")
    loss = (values[0] * pull).sum() + (values[1] * pull.flip(0)).sum()
    return [*(value.detach() for value in values), *torch.autograd.grad(loss, [states, head.weight])]


def exact(states, head, targets, temperature):
    log_probs = (states.double() @ head.weight.double().T / temperature).log_softmax(-1)
    return log_probs.gather(-1, targets[:, None])[:, 0], -(log_probs.exp() * log_probs).sum(-1)


@pytest.mark.parametrize("chunk", [1, 100, 2000])
@pytest.mark.parametrize("vocabulary", [VOCABULARY, VOCABULARY + 3, 262_144])
@pytest.mark.parametrize("master", [torch.bfloat16, torch.float32])
def test_bf16_is_fp64_to_its_own_accuracy(chunk, vocabulary, master):
    states, head, targets = case(vocabulary, master)
    right = gradients(exact(states, head, targets, 0.9), states, head)
    with torch.autocast("cuda", torch.bfloat16):
        values = row_stats(states, head, targets, 0.9, chunk, "gradient")[:2]
        plain = gradients(logits_stats(states, head.weight, None, targets, 0.9, "gradient")[:2], states, head)
    found = gradients(values, states, head)
    assert found[3].dtype == master
    for ours, theirs, usual in zip(found, right, plain, strict=True):
        error, allowed = ((x.double() - theirs.double()).norm() / theirs.double().norm() for x in (ours, usual))
        assert error < 1.2 * allowed + 1e-5 and allowed < 0.03


@pytest.mark.parametrize("chunk", [32, 100])
def test_the_head_takes_its_gradients_and_a_chunk_and_no_more(chunk):
    states, head, targets = case()
    gradients(row_stats(states, head, targets, 1.0, chunk, "gradient")[:2], states, head)  # cuBLAS takes its own
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    gradients(row_stats(states, head, targets, 1.0, chunk, "gradient")[:2], states, head)
    sums = 2 * ROWS * DIM * 4  # of the states' gradient, in fp32
    allowed = head.weight.nbytes + chunk * VOCABULARY * 2 + sums + 2**21  # for what a row has one of
    assert torch.cuda.max_memory_allocated() - before <= allowed < ROWS * VOCABULARY * 2


def test_logits_beyond_32_bits_are_found():
    from isentropic.policy.model.logits_kernels import accumulate_stats, allocate_stats, logits_grad

    memory = torch.empty(2**31 + 4096, device="cuda", dtype=torch.bfloat16)
    far = memory.as_strided((2, 3000), (2**31, 1))
    near = torch.randn(2, 3000, device="cuda", dtype=torch.bfloat16)
    far.copy_(near)
    targets, pull = torch.tensor([5, 2999], device="cuda"), torch.tensor([1.0, -2.0], device="cuda")
    results = []
    for logits in (far, near):
        running, found = allocate_stats(targets)
        accumulate_stats(logits, 0, targets, running, found, 1.0, True, True, begins=True, ends=True)
        logp, entropy, sensitivity, size = found
        logits_grad(logits, 0, targets, size, entropy, pull, pull, 1.0)
        results.append((logp, entropy, sensitivity, logits))
    for ours, theirs in zip(*results, strict=True):
        assert ours.any()
        torch.testing.assert_close(ours, theirs, rtol=1e-2 if ours.dtype == torch.bfloat16 else 1e-5, atol=1e-6)
