"""MLflow: one run per job, tagged with its sweep, and the same run when the job goes on in its folder."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning.fabric.loggers.logger import rank_zero_experiment
from lightning.pytorch.loggers import MLFlowLogger
from lightning.pytorch.utilities import rank_zero_only

from isentropic.logger.aliases import Alias, Aliased
from isentropic.logger.sweep import keep_id, known_id, missing, of_sweep


class MLflow(Aliased, MLFlowLogger):
    """Lightning's; what else it knows can be set too. Raises ModuleNotFoundError without mlflow."""

    def __init__(
        self,
        save_dir: str,  # the run's folder
        tracking_uri: str,  # of a server, or of a database on the disk
        experiment_name: str,
        run_name: str | None,  # null: the folder's
        run_id: str | None,  # null: a new one, that the folder keeps
        tags: list[str],
        alias: Alias | None,
        task: str,
        **settings: Any,
    ) -> None:
        self.folder = Path(save_dir)
        self.known = known_id(self.folder, "mlflow")
        told = dict(zip(("group", "job_type"), of_sweep(self.folder), strict=True)) | {"tags": ",".join(tags)}
        try:
            super().__init__(
                save_dir=None, tracking_uri=tracking_uri, experiment_name=experiment_name,
                run_name=run_name or self.folder.name, run_id=run_id or self.known,
                tags={name: value for name, value in told.items() if value}, **settings,
            )  # fmt: skip
        except ModuleNotFoundError as error:
            raise missing("mlflow", "mlflow") from error
        self.alias, self.task = alias, task

    @property
    @rank_zero_experiment
    def experiment(self) -> Any:
        """MLflow's client. Starts the run, or goes on with the one that the folder keeps."""
        begins, client = not self._initialized, super().experiment
        if begins and self._run_id is not None:
            client.update_run(self._run_id, status="RUNNING")  # it had ended
            keep_id(self.folder, "mlflow", self._run_id)
        return client

    @rank_zero_only
    def log_hyperparams(self, params: Any) -> None:
        """Once: MLflow takes no other value of a parameter, as of `rollout.steps` when a run goes on for longer."""
        if self.known is None:
            super().log_hyperparams(params)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        names = {allowed(name): value for name, value in self.named(metrics).items()}
        MLFlowLogger.log_metrics(self, names, step)


def allowed(name: str) -> str:
    """What MLflow takes on any system: `eval/avg@8` is `eval/avg_at_8`."""
    return re.sub(r"[^\w/. -]+", "_", name.replace("@", "_at_"), flags=re.ASCII)
