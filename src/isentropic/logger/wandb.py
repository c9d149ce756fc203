"""Weights & Biases: one run per job, under its sweep's name, and the same run when the job goes on in its folder."""

import secrets
from pathlib import Path
from typing import Any, Literal

from lightning.fabric.loggers.logger import rank_zero_experiment
from lightning.pytorch.loggers import WandbLogger
from lightning.pytorch.utilities import rank_zero_only

from isentropic.logger.aliases import Alias, Aliased
from isentropic.logger.sweep import keep_id, known_id, of_sweep


class Wandb(Aliased, WandbLogger):
    """Lightning's; what else `wandb.init` knows can be set too. Raises ModuleNotFoundError without wandb."""

    def __init__(
        self,
        save_dir: str,  # the run's folder
        project: str,
        name: str | None,  # null: the folder's
        group: str | None,  # null: the sweep's folder
        job_type: str | None,  # null: what the sweep varies, but for the seed
        id: str | None,  # null: a new one, that the folder keeps
        resume: str,  # whether a run of this id goes on: allow, must, never or auto
        tags: list[str],
        offline: bool,
        log_model: bool | Literal["all"],
        alias: Alias | None,
        task: str,
        **settings: Any,
    ) -> None:
        folder = Path(save_dir)
        sweep, varied = of_sweep(folder)
        known = known_id(folder, "wandb") or secrets.token_hex(4)
        super().__init__(
            save_dir=save_dir, project=project, name=name or folder.name, group=group or sweep,
            job_type=job_type or varied, id=id or known, resume=resume, tags=tags, offline=offline,
            log_model=log_model, **settings,
        )  # fmt: skip
        self.alias, self.task = alias, task

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """The wandb run. Starts it, and only then is its id kept: a folder in which nothing ran stays empty."""
        run = super().experiment
        keep_id(Path(self.save_dir or "."), "wandb", str(self.version))
        return run

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """wandb would call a run finished that has failed."""
        super().finalize(status)
        if status != "success" and self._experiment is not None:
            self._experiment.finish(exit_code=1)
