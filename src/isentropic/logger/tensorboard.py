"""TensorBoard, under the names one chooses. The folders of a sweep's jobs are its runs."""

from typing import Any

from lightning.pytorch.loggers import TensorBoardLogger

from isentropic.logger.aliases import Alias, Aliased


class TensorBoard(Aliased, TensorBoardLogger):
    """Lightning's; what else its SummaryWriter knows can be set too."""

    def __init__(
        self,
        save_dir: str,
        name: str,
        version: str,
        default_hp_metric: bool,
        alias: Alias | None,
        task: str,
        **settings: Any,
    ) -> None:
        super().__init__(save_dir, name, version, default_hp_metric=default_hp_metric, **settings)
        self.alias, self.task = alias, task
