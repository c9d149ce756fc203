"""How the policy is stepped: AdamW, its warm-up, and the sizes of its batches."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lightning import Trainer
from torch.nn import Parameter
from torch.optim import AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from isentropic.policy.schedule import Schedule

# What Lightning's trainer would do to a gradient: the value that leaves it alone, and where the same is set.
OWN: tuple[tuple[str, float | None, str], ...] = (
    (
        "accumulate_grad_batches",
        1,
        "policy.optimization.mini_batch is the completions of an optimizer step, whose gradients are accumulated over "
        "micro-batches of micro_batch",
    ),
    ("gradient_clip_val", None, "policy.optimization.max_grad_norm clips its gradient"),
)


@dataclass(frozen=True)
class Optimization:
    """AdamW, after a linear warm-up at the rate that a schedule says.

    Raises ValueError for sizes below 1 and for rates out of range.
    """

    lr: float  # after warm-up
    weight_decay: float  # decoupled, per unit of learning rate
    beta1: float  # of the mean of gradients
    beta2: float  # of the mean of their squares
    warmup_steps: int  # optimizer steps
    warmup_ratio: float  # share of all optimizer steps, in place of their number
    max_grad_norm: float  # L2, over all parameters
    mini_batch: int  # completions of one optimizer step, over all ranks
    micro_batch: int | None  # completions of one forward, on one rank; null is no limit
    # of one forward on one rank, padding included; null is no limit, but where micro_batch is null too the card chooses
    max_tokens_per_micro_batch: int | None
    max_tokens_no_grad: int | None  # the same of a forward without a backward pass
    # under FSDP, divided over ranks after every micro-batch; else whole on each rank until the last, at 4 bytes per
    # parameter and less traffic
    sharded_gradients: bool
    # under FSDP, gathered anew for each forward and backward pass; else whole on each rank from the first forward of an
    # optimizer step to its end, at 2 bytes per parameter in bf16 and less traffic
    reshard_after_forward: bool
    balance: bool  # groups move between ranks until all read about equally many tokens; the slowest sets the pace

    def __post_init__(self) -> None:
        if self.mini_batch < 1 or (self.max_tokens_per_micro_batch is not None and self.max_tokens_per_micro_batch < 1):
            raise ValueError(
                f"mini_batch={self.mini_batch} and max_tokens_per_micro_batch={self.max_tokens_per_micro_batch} must "
                "be at least 1"
            )
        if self.max_tokens_no_grad is not None and self.max_tokens_no_grad < 1:
            raise ValueError(f"max_tokens_no_grad={self.max_tokens_no_grad} must be at least 1")
        if self.micro_batch is not None and (self.micro_batch < 1 or self.mini_batch % self.micro_batch):
            raise ValueError(
                f"micro_batch={self.micro_batch} does not divide mini_batch={self.mini_batch}; take a divisor of it"
            )
        if self.lr <= 0:
            raise ValueError(f"lr={self.lr} must be above 0")
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps={self.warmup_steps} must not be negative; 0 is no warm-up")
        if not 0 <= self.warmup_ratio <= 1:
            raise ValueError(f"warmup_ratio={self.warmup_ratio} is a share of the optimizer steps, from 0 to 1")
        if self.warmup_steps and self.warmup_ratio:
            raise ValueError(
                f"warmup_steps={self.warmup_steps} and warmup_ratio={self.warmup_ratio} say the same; set one of "
                "them to 0"
            )
        if not self.max_grad_norm > 0:
            raise ValueError(f"max_grad_norm={self.max_grad_norm} must be above 0; .inf does not clip")

    def check(self, trainer: Trainer) -> None:
        """Raises ValueError where the trainer would interfere, or cannot spread an optimizer step over its ranks."""
        if trainer.precision != "32-true":  # its autocast would keep cast weights over optimizer steps
            raise ValueError(
                f"trainer.precision={trainer.precision} would cast the weights, which stay in fp32; take 32-true and "
                "policy.model.compute_dtype=bfloat16"
            )
        for name, neutral, instead in OWN:
            if (value := getattr(trainer, name)) != neutral:
                raise ValueError(
                    f"trainer.{name}={value} is not for a policy that steps its optimizer itself; {instead}"
                )
        if self.mini_batch % trainer.world_size:
            raise ValueError(
                f"mini_batch={self.mini_batch} is not a multiple of the {trainer.world_size} ranks it is spread over"
            )

    def build(self, parameters: Iterator[Parameter], factor: Callable[[int], float]) -> tuple[AdamW, LambdaLR]:
        """AdamW over these parameters; `factor` is of its rate, by optimizer step."""
        weights = list(parameters)
        fused = True if all(weight.is_cuda for weight in weights) else None  # null lets torch choose
        optimizer = AdamW(weights, self.lr, (self.beta1, self.beta2), weight_decay=self.weight_decay, fused=fused)
        return optimizer, LambdaLR(optimizer, lambda step: factor(step))  # a method would be pickled

    def factor(self, step: int, steps: int, schedule: Schedule) -> float:
        """Of the learning rate at a step of `steps`; the schedule begins where the warm-up ends."""
        warmup = self.warmup_steps or math.ceil(self.warmup_ratio * steps)
        return (step + 1) / (warmup + 1) if step < warmup else schedule(step - warmup, steps - warmup)

    def obey(self, optimizer: Optimizer, schedule: LambdaLR, factor: float) -> None:
        """These settings hold in a resumed run too, whose checkpoint brings those of before."""
        for group in optimizer.param_groups:
            group["betas"], group["weight_decay"] = (self.beta1, self.beta2), self.weight_decay
            group["initial_lr"], group["lr"] = self.lr, self.lr * factor
        schedule.base_lrs = [self.lr] * len(optimizer.param_groups)
