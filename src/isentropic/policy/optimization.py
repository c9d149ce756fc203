"""How the policy is stepped: AdamW, its warm-up, and the sizes of its batches."""

from collections.abc import Iterator
from dataclasses import dataclass

from torch.nn import Parameter
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR


@dataclass(frozen=True)
class Optimization:
    """AdamW at a constant rate after a linear warm-up."""

    lr: float
    weight_decay: float
    beta1: float
    beta2: float
    warmup_steps: int  # optimizer steps
    max_grad_norm: float
    mini_batch: int  # completions of one optimizer step, over all ranks
    micro_batch: int  # completions of one forward, on one rank
    micro_tokens: int | None  # tokens of one forward with their padding, on one rank; null is no limit

    def __post_init__(self) -> None:
        if self.micro_batch < 1 or self.mini_batch % self.micro_batch:
            raise ValueError(
                f"micro_batch={self.micro_batch} does not divide mini_batch={self.mini_batch}; take a divisor of it"
            )
        if self.lr <= 0:
            raise ValueError(f"lr={self.lr} must be above 0")

    def check_ranks(self, ranks: int) -> None:
        """Raises ValueError where an optimizer step cannot be spread over so many ranks."""
        if self.mini_batch % ranks:
            raise ValueError(f"mini_batch={self.mini_batch} is not a multiple of the {ranks} ranks it is spread over")

    def build(self, parameters: Iterator[Parameter]) -> tuple[AdamW, LambdaLR]:
        optimizer = AdamW(parameters, self.lr, (self.beta1, self.beta2), weight_decay=self.weight_decay)
        return optimizer, LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (self.warmup_steps + 1)))
