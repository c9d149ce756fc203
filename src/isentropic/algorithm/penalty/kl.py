"""KL to a frozen reference policy: GRPO's own term, arXiv:2402.03300, by one of three estimators of its value."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch

from isentropic.algorithm.penalty import Penalty
from isentropic.batch import Credit, Drive, PerToken, ScoredBatch, TokenStats


@dataclass(frozen=True)
class Kl(Penalty):
    """weight * estimate of KL(policy || reference) at each token (J. Schulman 2020, "Approximating KL divergence").

    With d = log p_reference - log p: k1 is -d, k2 is d^2 / 2, k3 is exp(d) - d - 1. All are zero at the reference. As
    a loss they differ from what they are as values: on tokens of the policy itself the expected gradient of k1 is zero
    (it only adds noise), that of k2 is the gradient of KL(policy || reference), and that of k3, which is the original
    GRPO's, the gradient of KL(reference || policy). It pulls on every token, those of groups without spread included.

    d is clamped to +-20, so that k3 is finite. verl clamps the value of k3 to 10 as well, which takes the gradient away
    from the tokens that have left the reference furthest (d above 2.6); this does not. Raises ValueError for a weight
    of 0 or below.
    """

    needs_reference: ClassVar[bool] = True

    weight: float  # beta, loss per nat
    estimator: Literal["k1", "k2", "k3"]

    def __post_init__(self) -> None:
        if not self.weight > 0:
            raise ValueError(
                f"penalty.kl.weight={self.weight} must be above 0; for none, leave kl out of algorithm/penalty and "
                "policy.reference null, as reading a reference costs a forward pass"
            )

    def __call__(self, credit: Credit, now: TokenStats, batch: ScoredBatch, drive: Drive) -> PerToken:
        d = torch.where(credit.mask, batch.ref_logp - now.logp, 0).clamp(-20, 20)
        match self.estimator:
            case "k1":
                return -self.weight * d
            case "k2":
                return self.weight * d**2 / 2
            case "k3":
                return self.weight * (d.exp() - d - 1)
