"""What callbacks may read of the run they watch, with its types."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

from lightning import Callback, LightningModule, Trainer

from isentropic.policy.module import PolicyModule
from isentropic.rollout.datamodule import RolloutDataModule


@dataclass
class PhaseSeconds:
    """What of the last step went to the sampler, apart from sampling."""

    sleep: float = 0.0
    sync: float = 0.0
    wait: float = 0.0  # for a rollout that is sampled during the update


class SamplerPhases(Callback):
    """The callback that puts the sampler to sleep and sends it weights; it fills in the seconds of both."""

    def __init__(self) -> None:
        self.seconds = PhaseSeconds()


def policy_of(module: LightningModule) -> PolicyModule:
    """Lightning hands every module as its base class; the one that train.py fits is always this one."""
    assert isinstance(module, PolicyModule)
    return module


def rollouts_of(trainer: Trainer) -> RolloutDataModule:
    data = trainer.datamodule  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(data, RolloutDataModule)
    return data


def callbacks_of(trainer: Trainer) -> list[Callback]:
    return cast(list[Callback], trainer.callbacks)  # pyright: ignore[reportAttributeAccessIssue]


def earlier_metrics(trainer: Trainer) -> list[Path]:
    """Files of this run's folder, and of that of the checkpoint that it goes on with."""
    folders = {Path(trainer.default_root_dir).absolute()}
    if trainer.ckpt_path:
        folders.add(Path(trainer.ckpt_path).absolute().parents[1])
    return sorted(file for folder in folders for file in folder.glob("metrics*.csv"))


def seconds_of(trainer: Trainer) -> PhaseSeconds:
    """All zero where no callback works the sampler."""
    return next((c.seconds for c in callbacks_of(trainer) if isinstance(c, SamplerPhases)), PhaseSeconds())
