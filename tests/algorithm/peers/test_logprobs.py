"""Log-probs and entropies of logits against TRL's and verl's own."""

import pytest
import torch

pytestmark = pytest.mark.parity


@pytest.fixture
def theirs(request):
    """TRL's or verl's (log-probs, entropies) of logits."""

    def trl(logits, targets, temperature):
        utils = request.getfixturevalue("trl_utils")
        logp = utils.selective_log_softmax(logits[None], targets[None], temperature)[0]
        return logp, utils.entropy_from_logits(logits / temperature)

    def verl(logits, targets, temperature):
        functional = request.getfixturevalue("core_algos").verl_F
        logits = logits.double() / temperature  # in fp32 its entropy is off by 5e-6
        return functional.logprobs_from_logits_v2(logits, targets), functional.entropy_from_logits(logits)

    return {"trl": trl, "verl": verl}[request.param]


@pytest.mark.parametrize("theirs", ["trl", "verl"], indirect=True)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_log_probs_and_entropies_are_theirs(theirs, seed, temperature):
    from isentropic.policy.model.logprobs import logits_stats

    draw = torch.Generator().manual_seed(seed)
    weight, states = torch.randn(301, 16, generator=draw), torch.randn(50, 16, generator=draw)
    targets = torch.randint(301, (50,), generator=draw)
    ours = logits_stats(states, weight, None, targets, temperature, "value")[:2]
    for mine, other in zip(ours, theirs(states @ weight.T, targets, temperature), strict=True):
        assert torch.allclose(mine, other.float(), rtol=1e-6, atol=1e-6)


def test_verls_entropy_loses_digits_where_logits_are_large_and_ours_does_not(core_algos):
    from isentropic.policy.model.logprobs import entropy

    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(200, 301, generator=draw) * 4 + 50
    exact = entropy(logits.double().log_softmax(-1))
    ours = entropy(logits.log_softmax(-1))
    theirs = core_algos.verl_F.entropy_from_logits(logits)
    assert (ours - exact).abs().max() < 1e-6
    assert (theirs - exact).abs().max() > 1e-5


@pytest.mark.parametrize("theirs", ["trl", "verl"], indirect=True)
def test_an_impossible_token_leaves_an_entropy_here_and_none_there(theirs):
    from isentropic.policy.model.logprobs import entropy

    logits = torch.tensor([[0.0, 0.0, -torch.inf]])
    assert entropy(logits.log_softmax(-1)).item() == pytest.approx(0.693147, abs=1e-6)
    assert theirs(logits, torch.zeros(1, dtype=torch.long), 1.0)[1].isnan().all()
