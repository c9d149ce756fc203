"""Comet: one experiment per job, tagged with its sweep, and the same one when the job goes on in its folder."""

from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CometLogger
from lightning.pytorch.utilities import rank_zero_only

from isentropic.logger.aliases import Alias, Aliased
from isentropic.logger.sweep import keep_id, known_id, missing, of_sweep


class Comet(Aliased, CometLogger):  # pyright: ignore[reportIncompatibleMethodOverride]
    """Lightning's; what else `comet_ml.ExperimentConfig` knows can be set too.

    Raises ModuleNotFoundError without comet_ml.
    """

    def __init__(
        self,
        save_dir: str,  # the run's folder
        project: str,
        name: str | None,  # null: the folder's
        experiment_key: str | None,  # null: a new one, that the folder keeps
        offline: bool,  # into archives in the run's folder, which `comet upload` sends later
        tags: list[str],
        alias: Alias | None,
        task: str,
        **settings: Any,
    ) -> None:
        self.folder, self.offline = Path(save_dir), offline
        self.known = known_id(self.folder, "comet")
        archives: dict[str, Any] = {"offline_directory": str(self.folder / "comet")} if offline else {}
        told = [one for one in (*tags, *of_sweep(self.folder)) if one]
        try:
            super().__init__(
                project=project, name=name or self.folder.name, experiment_key=experiment_key or self.known,
                mode="get_or_create", tags=told, **archives | settings,
            )  # fmt: skip
        except ModuleNotFoundError as error:
            raise missing("comet", "comet-ml") from error
        self.alias, self.task = alias, task

    def _create_experiment(self) -> None:
        """Told to be offline when it is made, Lightning's would keep nothing."""
        self._online = not self.offline
        if self.offline:
            (self.folder / "comet").mkdir(parents=True, exist_ok=True)
        super()._create_experiment()

    @rank_zero_only
    def log_hyperparams(self, params: Any) -> None:
        """Once. From here on the run exists, so that its folder keeps the key."""
        if self.known is None:
            super().log_hyperparams(params)
            keep_id(self.folder, "comet", str(self.version))
