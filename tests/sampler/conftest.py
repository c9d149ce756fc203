import pytest
import torch
from transformers import AutoModelForCausalLM


@pytest.fixture(scope="session")
def reference():
    """Log-probs of a completion by the trainer's arithmetic."""

    def log_probs(model, prompt, completion, temperature):
        logits = model(torch.tensor([[*prompt, *completion]])).logits[0, len(prompt) - 1 : -1]
        return (logits / temperature).log_softmax(-1).gather(1, torch.tensor(completion)[:, None])[:, 0].tolist()

    return log_probs


@pytest.fixture
def policy(tiny_model):
    """The tiny model, which a test may change."""
    return AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.float32).requires_grad_(False)
