"""A model in, scores out: `isentropic eval subject=FOLDER evaluation/protocol=stare`, by the protocol of a paper.

subject              a model's folder, a checkpoint or run's folder of ours, or the URL of a vLLM server
evaluation/protocol  how: sets, answers of each problem, decoding, prompt, graders; own, as the run or experiment itself
experiment           whose prompts and lengths hold where a protocol has none of its own
dry_run=true         says what it would take, and asks nothing

The same command goes on where it was stopped. docs/evaluation.md says more.

With `regrade=FOLDER grader=boxed_string` in place of subject, kept answers are judged anew: docs/graders.md.

With `ckpt_path=logs/train/runs/…` and without subject, a checkpoint is judged by the trainer, as during its run.
"""

import json
import sys
from pathlib import Path

from omegaconf import DictConfig

from isentropic.config.entry import main, one_sentence, quiet, read_environment
from isentropic.config.graders import regrade, regrades
from isentropic.config.judged import differences, key_of, with_run
from isentropic.judge import judge
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


def by_protocol(arguments: list[str]) -> None:
    """Raises SystemExit with 2 for what cannot be asked."""
    read_environment()
    quiet()
    with one_sentence():
        judge(arguments)


if __name__ == "__main__":
    if regrades(sys.argv[1:]):
        regrade(sys.argv[1:])
    elif any(key_of(one) == "subject" for one in sys.argv[1:]):
        by_protocol(sys.argv[1:])
    else:
        evaluate()
