"""Aim: one run per job in a repository on the disk, and the same run when the job goes on in its folder."""

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from isentropic.logger.aliases import Alias, Aliased
from isentropic.logger.sweep import keep_id, known_id, missing, of_sweep


class Aim(Aliased):
    """Around aim's own logger for Lightning, which cannot be a base before it is imported.

    What else that one knows can be set too. Raises ModuleNotFoundError without aim.
    """

    def __init__(
        self,
        save_dir: str,  # the run's folder
        repo: str,  # a folder, or the address of a server
        experiment: str | None,  # null: the sweep's folder, else isentropic
        run_name: str | None,  # null: the folder's
        run_hash: str | None,  # null: a new one, that the folder keeps
        tags: list[str],
        alias: Alias | None,
        task: str,
        **settings: Any,
    ) -> None:
        try:
            made = import_module("aim.pytorch_lightning").AimLogger
        except ModuleNotFoundError as error:
            raise missing("aim", "aim") from error
        super().__init__()
        self.folder, self.tags = Path(save_dir), tags
        self.known = known_id(self.folder, "aim")
        experiment = experiment or of_sweep(self.folder)[0] or "isentropic"
        name = run_name or self.folder.name
        self.inner: Logger = made(
            repo=repo, experiment=experiment, run_name=name, run_hash=run_hash or self.known, **settings
        )
        self.alias, self.task = alias, task

    @property
    def experiment(self) -> Any:
        return self.inner.experiment  # pyright: ignore[reportAttributeAccessIssue]

    @property
    def name(self) -> str | None:
        return self.inner.name

    @property
    def version(self) -> str | int | None:
        return self.inner.version

    @rank_zero_only
    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        """Once. From here on the run exists, so that its folder keeps the hash."""
        if self.known is None:
            self.inner.log_hyperparams(params)
            for tag in self.tags:
                self.experiment.add_tag(tag)
            keep_id(self.folder, "aim", str(self.version))

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.inner.log_metrics(self.named(metrics), step)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        self.inner.finalize(status)
