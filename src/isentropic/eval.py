"""A checkpoint in, scores out: `isentropic eval experiment=quickstart ckpt_path=…/last.ckpt`."""

import json
from pathlib import Path

from omegaconf import DictConfig

from isentropic.config.entry import main
from isentropic.train import parts


@main("eval")
def evaluate(cfg: DictConfig) -> None:
    """Writes scores.json into the run's folder: avg@k and pass@k on rollout.evaluation.split, with 95 % intervals."""
    with parts(cfg) as (trainer, policy, data):
        trainer.validate(policy, data, ckpt_path=cfg.ckpt_path, verbose=False, weights_only=True)
    metrics = trainer.callback_metrics.items()
    scores = {name.removeprefix("eval/"): float(value) for name, value in metrics if "@" in name}
    text = json.dumps({"checkpoint": cfg.ckpt_path, "split": cfg.rollout.evaluation.split} | scores, indent=2)
    if trainer.is_global_zero:
        (Path(cfg.paths.output) / "scores.json").write_text(text + "\n")
        print(text, flush=True)


if __name__ == "__main__":
    evaluate()
