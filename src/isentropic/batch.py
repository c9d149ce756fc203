"""The nouns all folders use, and the shapes they come in.

B completions, padded to S tokens. A per-token value sits on the token it describes:
logp[b, s] is the log-probability of tokens[b, s] given tokens[b, :s].
"""

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeVar, cast

import torch
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
PerTarget = Float[Tensor, " N"]  # one value for each token that the policy chose
# Of a forward, whether entropy is computed: not at all, as a value (with its sensitivity), or with a gradient. It costs
# half as much again as the log-probs.
EntropyMode = Literal["none", "value", "gradient"]
# One value per name. Those of an optimizer step are added up over its micro-batches; the mean over ranks is the value.
Metrics = dict[str, Scalar | float]
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}  # by their names in settings

Record = TypeVar("Record", bound="Rows")  # beartype does not know Self in a class that jaxtyping checks


@dataclass(frozen=True)
class Rows:
    """A record of tensors that share their first axis: it is cut and moved as one."""

    def __getitem__(self: Record, rows: slice | Tensor) -> Record:
        """The same record of some rows: a slice, indices or a mask of rows."""
        return replace(self, **{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    def to(self: Record, device: torch.device | str, **kwargs: Any) -> Record:
        """The same record on another device; keywords are those of Tensor.to."""
        return replace(self, **{f.name: getattr(self, f.name).to(device, **kwargs) for f in fields(self)})


@dataclass(frozen=True)
class RolloutBatch(Rows):
    """What happened: completions and their rewards."""

    tokens: Ids  # prompt, then completion, with what was observed between its turns, then padding
    mask: Mask  # true on the tokens the policy chose
    group: Group  # which prompt each row answers; a group never spans ranks
    reward: PerRow
    correct: Flag  # the verdict, before any shaping of the reward
    truncated: Flag
    sampler_logp: PerToken  # NaN where the sampler did not say
    # the id of its content, the same whenever it is asked; that of the group where nobody says
    problem: Group = field(default=cast(Tensor, None), kw_only=True)
    turn: Ids = field(default=cast(Tensor, None), kw_only=True)  # which completion of its row a token is in or follows
    # updates between the policy that drew a token and the one that learns from it; 0 where nobody says
    staleness: Ids = field(default=cast(Tensor, None), kw_only=True)
    void: Flag = field(default=cast(Tensor, None), kw_only=True)  # rows with a turn without an action or an answer
    calls: Group = field(default=cast(Tensor, None), kw_only=True)  # of tools, in the whole row

    def __post_init__(self) -> None:
        """A row is one turn where nobody says more."""
        own = vars(self)  # which notes no reading of a field
        if own["problem"] is None:
            object.__setattr__(self, "problem", own["group"])
        if own["turn"] is None:
            object.__setattr__(self, "turn", torch.zeros_like(own["tokens"], dtype=torch.long))
        if own["staleness"] is None:
            object.__setattr__(self, "staleness", torch.zeros_like(own["tokens"], dtype=torch.long))
        if own["void"] is None:
            object.__setattr__(self, "void", torch.zeros_like(own["truncated"]))
        if own["calls"] is None:
            object.__setattr__(self, "calls", torch.zeros_like(own["group"]))


@dataclass(frozen=True)
class ScoredBatch(RolloutBatch):
    """... with the old policy's log-probs and entropies, from before this update."""

    old_logp: PerToken
    old_entropy: PerToken
    old_sensitivity: PerToken
    ref_logp: PerToken  # of the frozen reference; NaN without one


@dataclass(frozen=True)
class TokenStats(Rows):
    """Of each token, under the policy at this moment."""

    logp: PerToken
    entropy: PerToken  # nats, of the full vocabulary at the sampling temperature; NaN where nobody asked for it
    sensitivity: PerToken  # how the entropy falls as the token is reinforced, arXiv:2606.19236; NaN like the entropy


@dataclass(frozen=True)
class Credit(Rows):
    """The advantage of each token, and whether it takes part at all."""

    advantages: PerToken
    mask: Mask
    kl_weight: PerToken  # of a penalty on leaving the old policy; zero unless a rule sets it

    @classmethod
    def initial(cls, advantages: PerToken, mask: Mask) -> "Credit":
        """Before any rule."""
        return cls(advantages, mask, torch.zeros_like(advantages))

    def scale(self, weight: PerToken) -> "Credit":
        """Tokens count more or less; the number that the loss is divided by stays."""
        return replace(self, advantages=self.advantages * weight)

    def drop(self, tokens: Mask) -> "Credit":
        """Tokens leave the sum and the number that it is divided by."""
        return replace(self, mask=self.mask & ~tokens)

    def counts(self) -> Mask:
        """Tokens that the policy loss still depends on."""
        return self.mask & (self.advantages != 0)

    def add_kl(self, tokens: Mask, weight: float) -> "Credit":
        """These tokens pay for leaving the old policy, by the penalty that reads kl_weight."""
        return replace(self, kl_weight=self.kl_weight + torch.where(tokens, weight, 0.0))


@dataclass(frozen=True)
class Vitals:
    """What a controller may look at: one reading per rollout batch, the same on every rank."""

    entropy: float  # nats, mean over the tokens the policy chose
    progress: float  # share of training done, 0 to 1


@dataclass(frozen=True)
class Drive:
    """What a controller asks for: how hard to push entropy up, and how hard down. 1 is a part's full setting."""

    up: float = 0.0
    down: float = 0.0
    up_blamed: float | None = None  # up, in bad answers, where that is another

    @property
    def up_in_bad(self) -> float:
        """How hard to push entropy up in bad answers."""
        return self.up if self.up_blamed is None else self.up_blamed


@dataclass(frozen=True)
class Totals:
    """What one optimizer step averages over: counts of all ranks, divided by their number."""

    tokens: Scalar
    sequences: Scalar
