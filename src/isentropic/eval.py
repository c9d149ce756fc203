"""A checkpoint in, scores out: `isentropic eval ckpt_path=logs/train/runs/…`, with the settings of that run.

`isentropic eval regrade=FOLDER grader=boxed_string` judges the kept answers of an evaluation anew: docs/graders.md.
"""

import json
import sys
from pathlib import Path

from omegaconf import DictConfig

from isentropic.config.entry import main
from isentropic.config.graders import regrade, regrades
from isentropic.config.judged import differences, with_run
from isentropic.runs import files
from isentropic.train import parts, tell


@main("eval", given=with_run)
def evaluate(cfg: DictConfig) -> None:
    """Writes scores.json into the run's folder: avg@k and pass@k on rollout.evaluation.split, with 95 % intervals.

    `ckpt_path` is a checkpoint or a run's folder, whose own seed, task, model and decoding hold unless others are set.
    """
    for line in differences(cfg):
        print(line, flush=True)
    with parts(cfg) as (trainer, policy, data):
        tell(data.task.notes(), Path(cfg.paths.output))
        trainer.validate(policy, data, ckpt_path=cfg.ckpt_path, verbose=False, weights_only=True)
    metrics = trainer.callback_metrics.items()
    scores = {name.removeprefix("eval/"): float(value) for name, value in metrics if "@" in name}
    text = json.dumps({"checkpoint": cfg.ckpt_path, "split": cfg.rollout.evaluation.split} | scores, indent=2)
    if trainer.is_global_zero:
        files.write_whole(Path(cfg.paths.output) / files.SCORES, text + "\n")
        print(text, flush=True)


if __name__ == "__main__":
    if regrades(sys.argv[1:]):
        regrade(sys.argv[1:])
    else:
        evaluate()
