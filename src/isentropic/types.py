"""The nouns all folders use, and the shapes they come in.

B completions, padded to S tokens. A per-token value sits on the token it describes:
logp[b, s] is the log-probability of tokens[b, s] given tokens[b, :s].
"""

from dataclasses import dataclass, fields, replace

from jaxtyping import Bool, Float, Int
from torch import Tensor

Ids = Int[Tensor, "B S"]
PerToken = Float[Tensor, "B S"]
PerTokenOrRow = Float[Tensor, "B #S"]
Mask = Bool[Tensor, "B S"]
PerRow = Float[Tensor, " B"]
Flag = Bool[Tensor, " B"]
Group = Int[Tensor, " B"]
Scalar = Float[Tensor, ""]
Metrics = dict[str, Scalar | float]


class Rows:
    """A record of tensors that share their first axis: it is cut and moved as one."""

    def __getitem__(self, rows):
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def to(self, device, **kwargs):
        return replace(self, **{f.name: getattr(self, f.name).to(device, **kwargs) for f in fields(self)})


@dataclass(frozen=True)
class RolloutBatch(Rows):
    """What happened: completions and their rewards."""

    tokens: Ids  # prompt, then completion, then padding
    mask: Mask  # true on the tokens the policy chose
    group: Group  # which prompt each row answers; a group never spans ranks
    reward: PerRow
    correct: Flag  # the verdict, before any shaping of the reward
    truncated: Flag
    sampler_logp: PerToken


@dataclass(frozen=True)
class ScoredBatch(RolloutBatch):
    """... and what the policy thought of it, before this update."""

    old_logp: PerToken
    old_entropy: PerToken


@dataclass(frozen=True)
class TokenStats(Rows):
    """What the policy thinks of each token now."""

    logp: PerToken
    entropy: PerToken


@dataclass(frozen=True)
class Credit(Rows):
    """How much each token is praised, and whether it takes part at all."""

    advantages: PerToken
    mask: Mask

    def scale(self, weight: PerToken) -> "Credit":
        return replace(self, advantages=self.advantages * weight)

    def drop(self, tokens: Mask) -> "Credit":
        return replace(self, mask=self.mask & ~tokens)


@dataclass(frozen=True)
class Vitals:
    """What a controller may look at: one reading per rollout batch, the same on every rank."""

    entropy: float
    progress: float  # share of training done, 0 to 1


@dataclass(frozen=True)
class Drive:
    """What a controller asks for: how hard to push entropy up, and how hard down."""

    up: float = 0.0
    down: float = 0.0


@dataclass(frozen=True)
class Totals:
    """What one optimizer step averages over: counts of all ranks, divided by their number."""

    tokens: Scalar
    sequences: Scalar
