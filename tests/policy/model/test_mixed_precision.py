import torch
from torch import nn

from isentropic.policy.model.mixed_precision import low_precision_weights


class Tied(nn.Module):
    """An embedding that is its head, around a layer."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layer, self.head = nn.Embedding(7, 4), nn.Linear(4, 4), nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.layer(self.embedding(ids)))


def test_weights_are_16_bits_inside_and_themselves_again_outside_even_after_an_error():
    model = Tied()
    before = dict(model.named_parameters())
    with low_precision_weights(model, torch.bfloat16):
        assert {p.dtype for p in model.parameters()} == {torch.bfloat16}
        assert model.head.weight is model.embedding.weight
        with low_precision_weights(model, torch.bfloat16):  # no copies of copies
            assert model.head.weight is model.embedding.weight
        assert model.layer.weight.dtype == torch.bfloat16
    assert all(p is before[name] for name, p in model.named_parameters())
    try:
        with low_precision_weights(model, torch.bfloat16):
            raise KeyError
    except KeyError:
        assert all(p is before[name] for name, p in model.named_parameters())


def test_gradients_of_many_forwards_add_up_in_fp32():
    torch.manual_seed(0)
    model, ids = Tied(), torch.arange(7)
    with low_precision_weights(model, torch.bfloat16):
        model(ids).float().square().sum().backward()
    once = {name: p.grad.clone() for name, p in model.named_parameters()}
    with low_precision_weights(model, torch.bfloat16):
        for _ in range(255):  # in bf16, the sum would stop to grow
            model(ids).float().square().sum().backward()
    for name, p in model.named_parameters():
        assert p.grad.dtype == torch.float32
        torch.testing.assert_close(p.grad, 256 * once[name], rtol=1e-4, atol=1e-4)


def test_weights_that_do_not_learn_get_no_gradient():
    model = Tied()
    model.layer.requires_grad_(False)
    with low_precision_weights(model, torch.bfloat16):
        model(torch.arange(7)).sum().backward()
    assert model.layer.weight.grad is None and model.head.weight.grad is not None


def test_in_fp32_nothing_is_copied():
    model = Tied()
    weight = model.layer.weight
    with low_precision_weights(model, torch.float32):
        assert model.layer.weight is weight
