"""The run's curves as a picture, in its folder when training ends."""

from pathlib import Path

from lightning import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.utilities import rank_zero_warn

from isentropic.reporting.render.run_curves import curves


class Curves(Callback):
    """Needs the CSV logger; without it there is nothing to draw, which it says."""

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not trainer.is_global_zero or trainer.fast_dev_run:  # pyright: ignore[reportAttributeAccessIssue]
            return
        for logger in trainer.loggers:
            logger.save()
        if any(isinstance(logger, CSVLogger) for logger in trainer.loggers):
            curves(Path(trainer.default_root_dir))
        else:
            rank_zero_warn("No curves.png without metrics.csv; add logger=csv to have both.")
