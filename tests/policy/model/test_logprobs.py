import pytest
import torch
from torch.distributions import Categorical
from torch.utils._python_dispatch import TorchDispatchMode

from isentropic.policy.model.logprobs import entropy, logits_stats, sensitivity, token_stats

VOCABULARY = 11


@pytest.fixture
def head():
    torch.manual_seed(0)
    return torch.nn.Linear(6, VOCABULARY, bias=False)


@pytest.fixture
def batch():
    torch.manual_seed(1)
    mask = torch.zeros(3, 8, dtype=torch.bool)
    mask[0, 2:7], mask[1, 4:8], mask[2, 1:3] = True, True, True
    return torch.randn(3, 7, 6), torch.randint(VOCABULARY, (3, 8)), mask


def reference(hidden, head, tokens, mask, temperature):
    logits = head(hidden).double() / temperature
    logp, h = torch.zeros(mask.shape, dtype=torch.double), torch.zeros(mask.shape, dtype=torch.double)
    for b, t in mask.nonzero().tolist():
        distribution = Categorical(logits=logits[b, t - 1])
        logp[b, t], h[b, t] = distribution.log_prob(tokens[b, t]), distribution.entropy()
    return logp, h


@pytest.mark.parametrize("chunk", [1, 3, 1000])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_each_token_is_scored_by_the_state_before_it(batch, head, chunk, temperature):
    hidden, tokens, mask = batch
    stats = token_stats(hidden, head, tokens, mask, temperature, chunk, "gradient")[:2]
    for ours, theirs in zip(stats, reference(hidden, head, tokens, mask, temperature), strict=True):
        torch.testing.assert_close(ours.double(), theirs, atol=1e-6, rtol=1e-5)


def test_sensitivity_is_how_entropy_falls_along_a_step_of_policy_gradient():
    logits = torch.randn(4, VOCABULARY, dtype=torch.double, generator=torch.Generator().manual_seed(2)) * 3
    logits[3, 1:3] = -torch.inf
    targets = torch.tensor([0, 5, 10, 4])
    along = logits.log_softmax(-1)
    logp = along.gather(-1, targets[:, None])[:, 0]
    found = sensitivity(along, logp, entropy(along))
    direction = torch.nn.functional.one_hot(targets, VOCABULARY) - logits.softmax(-1)
    steps = [entropy((logits + size * direction).log_softmax(-1)) for size in (1e-5, -1e-5)]
    torch.testing.assert_close(found, (steps[1] - steps[0]) / 2e-5, atol=1e-8, rtol=1e-6)


def test_the_mean_sensitivity_of_a_distribution_is_zero():
    logits = torch.tensor([0.0, 1.0, 3.0, -torch.inf]).log_softmax(-1).expand(4, 4)
    found = sensitivity(logits, logits.diagonal(), entropy(logits))
    assert (logits[0].exp() * found).sum().abs() < 1e-7


def test_log_probs_known_by_position_land_on_their_token():
    hidden = torch.eye(VOCABULARY)[None] * 30  # after the token at t the model is sure of token t
    head = torch.nn.Linear(VOCABULARY, VOCABULARY, bias=False)
    torch.nn.init.eye_(head.weight)
    tokens = torch.tensor([[0, *range(VOCABULARY)]])
    mask = torch.arange(VOCABULARY + 1)[None] > 0
    logp, _, _ = token_stats(hidden, head, tokens, mask, 1.0, 4, "value")
    assert logp.abs().max() < 1e-6
    shifted, _, _ = token_stats(hidden, head, tokens.roll(1, 1), mask, 1.0, 4, "value")
    assert (shifted[:, 2:] < -20).all()


def test_the_gradient_does_not_depend_on_the_chunk(batch, head):
    hidden, tokens, mask = batch
    gradients = []
    for chunk in (1, 4, 1000):
        states = hidden.clone().requires_grad_()
        head.zero_grad()
        logp, h, _ = token_stats(states, head, tokens, mask, 0.7, chunk, "gradient")
        (logp.sum() + 0.1 * h.sum()).backward()
        gradients.append((states.grad, head.weight.grad.clone()))
    for states, weight in gradients[1:]:
        torch.testing.assert_close(states, gradients[0][0], atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(weight, gradients[0][1], atol=1e-6, rtol=1e-5)


def test_an_entropy_nobody_pays_for_has_no_gradient(batch, head):
    hidden, tokens, mask = batch
    logp, h, _ = token_stats(hidden.requires_grad_(), head, tokens, mask, 1.0, 4, "value")
    assert logp.requires_grad and not h.requires_grad


@pytest.mark.parametrize(
    "logits", [[0.0, 0.0, float("-inf")], [1.0, float("-inf"), float("-inf")], [65504.0, -65504.0, 0.0]]
)
def test_entropy_is_finite_where_a_logit_is_not(logits):
    x = torch.tensor([logits], requires_grad=True)
    value = entropy(x.log_softmax(-1))
    value.sum().backward()
    assert value.isfinite().all() and x.grad.isfinite().all()
    kept = torch.tensor([[v for v in logits if v > float("-inf")]], requires_grad=True)
    expected = Categorical(logits=kept).entropy()
    expected.sum().backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(x.grad[x.detach() > float("-inf")], kept.grad[0])


def test_fp16_extremes_are_scored_in_fp32():
    states = torch.eye(2, dtype=torch.float16)
    weight = torch.tensor([[65504.0, 0], [-65504.0, 0]], dtype=torch.float16)
    logp, h, _ = logits_stats(states, weight, None, torch.tensor([0, 1]), 1.0, "value")
    assert logp.dtype == torch.float32 and logp.isfinite().all() and h.isfinite().all()


class WidestLogits(TorchDispatchMode):
    rows = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.dim() > 1 and tensor.shape[-1] == VOCABULARY:
                self.rows = max(self.rows, tensor.numel() // VOCABULARY)
        return result


def test_logits_exist_for_one_chunk_at_most_forward_and_backward(head):
    hidden = torch.randn(2, 30, 6, requires_grad=True)
    tokens, mask = torch.randint(VOCABULARY, (2, 31)), torch.arange(31).expand(2, 31) > 10
    with WidestLogits() as widest:
        logp, h, _ = token_stats(hidden, head, tokens, mask, 1.0, 7, "gradient")
        (logp.sum() + h.sum()).backward()
    assert 0 < widest.rows <= 7
