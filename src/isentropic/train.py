"""Compose, build, fit: `python -m isentropic.train experiment=quickstart`."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omegaconf import DictConfig, OmegaConf

from isentropic.build import bad_input, build
from isentropic.entry import CONFIGS, main, quiet

if TYPE_CHECKING:
    from lightning import LightningDataModule, LightningModule, Trainer


@main("train")
def train(cfg: DictConfig) -> float | None:
    """Returns the last avg@k, for sweepers that look for the best."""
    with parts(cfg) as (trainer, policy, data):
        trainer.fit(policy, data, ckpt_path=cfg.ckpt_path, weights_only=True)
    if trainer.is_global_zero:
        print(f"run folder: {cfg.paths.output}", flush=True)
    return next((float(v) for k, v in trainer.callback_metrics.items() if k.startswith("eval/avg@")), None)


@contextmanager
def parts(cfg: DictConfig) -> "Generator[tuple[Trainer, LightningModule, LightningDataModule]]":
    """All that a run is made of; the sampler's engine and the task's processes end with it. Raises BadInput."""
    from lightning import seed_everything
    from torchmetrics import MetricCollection

    from isentropic.policy.checkpoints import check

    quiet()  # once more, as lightning sets its own level when it is imported
    seed_everything(cfg.seed, verbose=False)
    with bad_input("ckpt_path"):
        if cfg.ckpt_path:
            check(cfg.ckpt_path, cfg.policy.model.path)
    fall_back(cfg)
    task, sampler, algorithm, scores = (build(cfg, key) for key in ("task", "sampler", "algorithm", "evaluation"))
    data = build(cfg, "rollout", task=task, sampler=sampler)
    policy = build(cfg, "policy", algorithm=algorithm, evaluation=MetricCollection(scores))
    with bad_input("rollout"):
        data.check_context(cfg.sampler.max_model_len)
    loggers, callbacks = (list((build(cfg, key) or {}).values()) for key in ("logger", "callbacks"))
    trainer = build(cfg, "trainer", logger=loggers, callbacks=callbacks)
    try:
        yield trainer, policy, data
    finally:
        sampler.stop()
        task.close()


def fall_back(cfg: DictConfig) -> None:
    """Where vLLM is not to be had, transformers answers, with the settings that the two share."""
    from isentropic.sampler.vllm import available

    if cfg.sampler._target_.endswith(".VllmSampler") and not available():
        print("vLLM is not installed here; going on with sampler=transformers", flush=True)
        other = OmegaConf.load(CONFIGS / "sampler" / "transformers.yaml")
        shared = {key: cfg.sampler[key] for key in other if key in cfg.sampler and key != "_target_"}
        OmegaConf.update(cfg, "sampler", OmegaConf.merge(other, shared), merge=False, force_add=True)


if __name__ == "__main__":
    train()
