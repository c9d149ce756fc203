"""What a run has learnt from, by its own config.yaml: for tests that are not to have been seen."""

import sys
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import BadInput, bad_input, build
from isentropic.runs import files


def trained_on(run: Path) -> tuple[list[str], list[str]]:
    """Names of a run's training sets and the prompts that it learnt from; both empty for tasks that make up problems.

    What the task leaves out of training, as test problems are, is not among them. Raises BadInput for a folder that is
    none of a run's, and where its data cannot be read.
    """
    file = run / files.CONFIG
    if not file.is_file():
        raise BadInput(f"{run} has no {files.CONFIG}; give the folder of a run")
    with bad_input(str(file)):
        cfg = OmegaConf.load(file)
    if not isinstance(cfg, DictConfig) or "task" not in cfg:
        raise BadInput(f"{file} names no task, so what its run learnt from is unknown")
    from isentropic.task.overlap import told

    task = build(cfg, "task")
    try:
        with bad_input("task"):
            problems = task.problems("train")
            if len(problems) == sys.maxsize:
                return [], []
            return names_of(cfg), [told(problem.prompt, problem.before) for problem in problems]
    finally:
        task.close()


def names_of(cfg: DictConfig) -> list[str]:
    """The sets of task=math, else the path of the data, else the task's own class."""
    train = cfg.task.get("train") or cfg.task.get("path") or str(cfg.task.get("_target_")).rpartition(".")[2]
    return [train] if isinstance(train, str) else [str(name) for name in train]
