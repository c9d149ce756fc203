"""Hydra takes launchers, sweepers and folders of configs from this namespace alone; these hand on to isentropic.

Every Hydra program in the environment imports this file, so it imports nothing of isentropic before it is asked to.
"""

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf


class OwnConfigs(SearchPathPlugin):
    """Those of packages with an entry point for them, in commands of isentropic alone."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        main = next((one.path for one in search_path.get_path() if one.provider == "main"), None) or ""
        if Path(main.removeprefix("file://")).resolve().parts[-2:] != ("isentropic", "configs"):
            return
        from isentropic.config.build import bad_input
        from isentropic.config.entry import one_sentence
        from isentropic.config.own import own_configs

        with one_sentence(), bad_input():
            for name, folder in own_configs().items():
                search_path.append(name, f"file://{folder}")


class HandsOn(Launcher):
    """Settings in, as Hydra gives them; `launcher` names the class of isentropic.launching that they are of."""

    @property
    @abstractmethod
    def launcher(self) -> type[Any]: ...

    def __init__(self, **settings: Any) -> None:
        self.settings = {
            name: OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
            for name, value in settings.items()
        }

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        from isentropic.config.build import bad_input, check
        from isentropic.config.entry import one_sentence

        self.config, self.loader = config, hydra_context.config_loader
        name = f"{self.launcher.__module__}.{self.launcher.__qualname__}"
        with one_sentence(), bad_input("hydra.launcher"):
            check({"_target_": name, **self.settings}, "hydra.launcher")
            self.made = self.launcher(**self.settings)

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        from isentropic.config.entry import one_sentence
        from isentropic.launching.sweep import sweep

        with one_sentence():
            return sweep(self.made, self.config, self.loader, job_overrides, initial_job_idx)


class LocalLauncher(HandsOn):
    @property
    def launcher(self) -> type[Any]:
        from isentropic.launching.local import Local

        return Local


class SlurmLauncher(HandsOn):
    @property
    def launcher(self) -> type[Any]:
        from isentropic.launching.slurm import Slurm

        return Slurm


class GridSweeper(BasicSweeper):
    """All combinations, as Hydra's own, which composes every job before the first and stops after a batch that failed.

    isentropic composes as few as hold every value, and tells of failures at the end.
    """

    def sweep(self, arguments: list[str]) -> list[Sequence[JobReturn]]:
        assert self.config is not None and self.launcher is not None and self.hydra_context is not None
        parser = OverridesParser.create(config_loader=self.hydra_context.config_loader)
        overrides = parser.parse_overrides([*self._parse_config(), *arguments])
        folder = Path(self.config.hydra.sweep.dir)
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(self.config, folder / "multirun.yaml")
        results: list[Sequence[JobReturn]] = []
        for batch in self.split_arguments(overrides, self.max_batch_size):
            results.append(self.launcher.launch(batch, initial_job_idx=sum(map(len, results))))
        return results
