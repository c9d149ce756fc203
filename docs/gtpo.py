"""What GTPO's normalisation leaves of the praise of right answers: prints the tables of gtpo.md."""

from pathlib import Path

import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

from isentropic.algorithm.advantage import AdvantageEstimator
from isentropic.batch import ScoredBatch
from isentropic.rollout.curation.informative import Informative

CONFIGS = Path(__file__).parents[1] / "configs/algorithm/advantage"
FIXTURE = [[0.3, 0.1, 1.2, 1.6, 0.5], [0.8, 2.0, 0.9, 0.4], [0.9, 0.2, 2.6], [1.1, 1.5]]
COLUMNS = (
    "normalisation",
    "mean A, right",
    "mean A, wrong",
    "right answers with a mean A below 0",
    "their tokens below 0",
)


def estimators() -> dict[str, AdvantageEstimator]:
    gtpo = OmegaConf.load(CONFIGS / "gtpo.yaml")
    norms = {f"`gtpo`, {norm}": instantiate(gtpo, norm=norm) for norm in ("split", "joint", "none")}
    return norms | {f"`{name}`": instantiate(OmegaConf.load(CONFIGS / f"{name}.yaml")) for name in ("grpo_s", "grpo")}


def scored(entropy: torch.Tensor, mask: torch.Tensor, correct: torch.Tensor, group: torch.Tensor) -> ScoredBatch:
    blank = torch.zeros_like(entropy)
    return ScoredBatch(
        mask.long(), mask, group, correct.float(), correct, ~correct, blank, blank, entropy, blank, blank
    )


def fixture() -> ScoredBatch:
    """Four answers of one prompt: right, wrong, right, wrong."""
    entropy = torch.tensor([row + [9.0] * (5 - len(row)) for row in FIXTURE])
    return scored(entropy, entropy < 9, torch.tensor([True, False, True, False]), torch.zeros(4, dtype=torch.long))


def simulated() -> ScoredBatch:
    """64 prompts of 8 answers with 16 to 256 tokens each: most tokens are certain, and wrong answers less so."""
    draw = torch.Generator().manual_seed(0)
    group = torch.arange(64).repeat_interleave(8)
    correct = torch.rand(512, generator=draw) < torch.rand(64, generator=draw)[group]
    mask = torch.arange(256) < torch.randint(16, 257, (512, 1), generator=draw)
    doubt = torch.where(correct, 0.3, 0.5)[:, None] * torch.empty(512, 1).uniform_(0.5, 1.5, generator=draw)
    return scored(doubt * torch.empty(512, 256).exponential_(1, generator=draw), mask, correct, group)


def table(batch: ScoredBatch) -> str:
    right = batch.mask & batch.correct[:, None]
    rows = [COLUMNS, ("---", *["---:"] * 4)]
    for name, estimate in estimators().items():
        advantages = estimate(batch)
        means = (advantages.sum(-1) / batch.mask.sum(-1))[batch.correct]
        below = f"{(means < -5e-4).float().mean():.0%}", f"{(advantages[right] < 0).float().mean():.0%}"
        sides = (f"{advantages[tokens].mean().item():+.3f}" for tokens in (right, batch.mask & ~right))
        rows.append((name, *(side.replace("-0.000", "+0.000") for side in sides), *below))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    for batch in fixture(), Informative(above=0.0, below=1.0)(simulated()):
        print(table(batch), end="\n\n")
