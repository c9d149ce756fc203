"""Compose, build, fit: `isentropic train experiment=quickstart`."""

import os
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from isentropic.config.build import BadInput, bad_input, build, plain
from isentropic.config.differences import contents_of, say_differences, settings_of
from isentropic.config.early import check_hardware, check_model_folder
from isentropic.config.entry import CONFIGS, main, of_disk, quiet, rank
from isentropic.config.micro_batch import choose_micro_batch
from isentropic.runs import files
from isentropic.runs.parallel import unswept
from isentropic.runs.status import Ended
from isentropic.tools.later import later

if TYPE_CHECKING:
    from lightning import Trainer

    from isentropic.algorithm.algorithm import Algorithm
    from isentropic.algorithm.control import Controller
    from isentropic.evaluation import Score
    from isentropic.policy.module import PolicyModule
    from isentropic.rollout.datamodule import RolloutDataModule
    from isentropic.sampler import Sampler
    from isentropic.task import Task


@main("train")
def train(cfg: DictConfig) -> Ended:
    """Returns the last avg@k, for sweepers that look for the best, and why it ended early.

    Raises BadInput for what the disk does not take.
    """
    own = find_last(cfg)
    with parts(cfg) as (trainer, policy, data):
        # these take seconds, and so wait for the first checks
        from isentropic.callbacks.early_stopping import EarlyStopping
        from isentropic.callbacks.stop_rules import StopRuleError
        from isentropic.callbacks.watchdog import OverdueError
        from isentropic.reward import RewardError
        from isentropic.sampler import SamplerError
        from isentropic.state import StateError

        policy.settings = settings_of(cfg) | contents_of(cfg, data)
        go_on(cfg, policy.algorithm.control, policy.settings, own)
        if rank() == 0:
            set_aside(Path(cfg.paths.output) / files.METRICS, resumed=cfg.ckpt_path is not None)
        describe(cfg, trainer)
        tell(data.task.notes(), Path(cfg.paths.output))
        if rank() == 0 and (sentence := data.easy_reward()):
            print(f"warning: {sentence}", flush=True)
        try:
            trainer.fit(policy, data, ckpt_path=cfg.ckpt_path, weights_only=True)
        except OSError as error:
            raise BadInput(of_disk(error, Path(cfg.paths.output))) from error
        except (OverdueError, RewardError, SamplerError, StateError, StopRuleError) as error:
            raise BadInput(" ".join(str(error).split())) from error
        except (MemoryError, RuntimeError) as error:
            raise_without_memory(cfg, error)
            raise_without_rank(error)
            raise
    score = next((float(v) for k, v in trainer.callback_metrics.items() if k.startswith("eval/avg@")), None)
    why = next((one.why for one in trainer.early_stopping_callbacks if isinstance(one, EarlyStopping)), None)
    if why and rank() == 0:
        print(why, flush=True)
    return Ended(score, why)


@contextmanager
def parts(cfg: DictConfig, all_fit: bool = True) -> "Generator[tuple[Trainer, PolicyModule, RolloutDataModule]]":
    """All that a run is made of; the sampler's engine and the task's processes end with it. Raises BadInput.

    `all_fit`: also for a prompt that is too long for the context; an audit counts these.
    """
    with ExitStack() as life:
        with unswept():
            made = prepare(cfg, life, all_fit)
            from isentropic.launching.meeting import a_meeting
        life.enter_context(a_meeting(made[0]))
        yield made


def prepare(cfg: DictConfig, life: ExitStack, all_fit: bool) -> "tuple[Trainer, PolicyModule, RolloutDataModule]":
    """The cheapest checks come first; `life` ends what has been started."""
    check_hardware(cfg)
    check_model_folder(cfg)
    if rank() == 0 and "torch" not in sys.modules:
        print("importing torch, transformers and Lightning", flush=True)
    from isentropic.algorithm.compatibility import check_parts, check_rewards

    algorithm = build(cfg, "algorithm")
    with bad_input():
        check_parts(algorithm, cfg.policy.reference, cfg.policy.model.path, cfg.rollout.group_size)
        check_rewards(algorithm, wrong_reward(cfg))
    with later("scipy.signal", hamming=None):  # torchmetrics asks for that, for a metric of sound: a second
        from lightning import seed_everything

    from isentropic.policy.checkpoint_checks import check

    quiet()  # once more, as lightning sets its own level when it is imported
    seed_everything(cfg.seed, verbose=False)
    with bad_input("ckpt_path"):
        if cfg.ckpt_path:
            check(cfg.ckpt_path, cfg.policy.model.path, plain(cfg, "policy.adapter"))
    fall_back(cfg)
    choose_micro_batch(cfg, algorithm)
    task, sampler = build(cfg, "task"), build(cfg, "sampler")
    life.callback(task.close)
    life.callback(sampler.stop)
    made = assemble(cfg, algorithm, task, sampler, all_fit)
    with bad_input("task"):
        task.check()
    return made


def wrong_reward(cfg: DictConfig) -> float | None:
    """What a wrong answer is worth, where its verdict alone decides."""
    if "outcome" in cfg.rollout.curation:
        return float(cfg.rollout.curation.outcome.wrong)
    by_verdict = set(cfg.get("reward") or {}) <= {"correct"} and "overlong" not in cfg.rollout.curation
    return 0.0 if by_verdict else None


def assemble(
    cfg: DictConfig, algorithm: "Algorithm", task: "Task", sampler: "Sampler", all_fit: bool = True
) -> "tuple[Trainer, PolicyModule, RolloutDataModule]":
    """What is wrong between parts is found here, before any engine or further rank starts."""
    from torchmetrics import MetricCollection

    from isentropic.callbacks.checkpoint import Checkpoint
    from isentropic.callbacks.early_stopping import EarlyStopping
    from isentropic.callbacks.run import SamplerPhases
    from isentropic.logger.aliases import check as check_alias
    from isentropic.reward.total import Rewards
    from isentropic.sampler.validation import check_model

    context = cfg.sampler.get("max_model_len")
    with bad_input("policy.model.path"):
        if context:
            check_model(cfg.policy.model.path, context)
    scores = build(cfg, "evaluation") or {}
    with bad_input("reward"):
        reward = Rewards(build(cfg, "reward") or {})
    data = build(cfg, "rollout", task=task, sampler=sampler, reward=reward)
    with bad_input():
        scored_apart(scores, data)
    policy = build(
        cfg, "policy", algorithm=algorithm, evaluation=MetricCollection(scores),
        batch_size=data.batch_size, temperature=data.decoding.temperature,
    )  # fmt: skip
    callbacks, loggers = list((build(cfg, "callbacks") or {}).values()), build(cfg, "logger") or {}
    alias, loggers = loggers.pop("alias", None), list(loggers.values())
    trainer = build(cfg, "trainer", logger=loggers, callbacks=callbacks)
    with bad_input():
        check_alias(alias, loggers)
        if not any(isinstance(callback, SamplerPhases) for callback in callbacks):
            raise ValueError("callbacks.weight_sync is taken away, and without it the sampler keeps its first weights")
        logged = [f"eval/{name}" for score in scores.values() for name in score.logged()]
        for callback in callbacks:
            if isinstance(callback, Checkpoint):
                callback.check(trainer, data.evaluation.split, logged)
            if isinstance(callback, EarlyStopping):
                callback.check(data.evaluation.split, logged)
        if context and all_fit:
            data.check_context(context)
        data.check_problems()
        data.check_ranks(trainer.world_size)
        sampler.check_ranks(trainer.world_size)
        policy.optimization.check(trainer)
        check_told(policy, data, sampler)
    return trainer, policy, data


def check_told(policy: "PolicyModule", data: "RolloutDataModule", sampler: "Sampler") -> None:
    """Raises ValueError where the sampler does not tell, or not of this policy, what parts would read of it."""
    from isentropic.algorithm.compatibility import check_early_logp, check_partial, check_sampler

    check_sampler(policy.algorithm, sampler.returns_logprobs, data.one_step_off_policy, sampler.is_remote)
    check_early_logp(policy.early_logp, sampler.returns_logprobs, data.partial or data.one_step_off_policy)
    staleness = data.max_staleness if data.partial else 0
    check_partial(policy.algorithm, sampler.halts, staleness, data.stale_cache and not sampler.keeps)


def raise_without_memory(cfg: DictConfig, error: BaseException) -> None:
    """Raises BadInput, with what to lower, where the error says that there is no more memory."""
    from isentropic.phases import phase_of
    from isentropic.planning.exhausted import ran_out, what_to_lower

    if ran_out(error):
        phase = phase_of(error) or "the start"
        raise BadInput(f"{phase} ran out of memory; {what_to_lower(phase, plain(cfg))}") from error


def raise_without_rank(error: BaseException) -> None:
    """Raises BadInput where a collective has lost one of its ranks, whose own words are those that matter."""
    from isentropic.distributed import lost_a_rank

    if lost_a_rank(error):
        said = " ".join(str(error).split())[:200]
        raise BadInput(f"another rank has ended, without which this one cannot go on ({said}); resume") from error


def scored_apart(scores: "dict[str, Score]", data: "RolloutDataModule") -> None:
    """Tells each score the sets that are judged. Raises ValueError for one that needs more answers than are asked."""
    evaluated = data.evaluated()
    for score in scores.values():
        score.sets = evaluated if list(evaluated) != [""] else {}
        if score.k > data.evaluation.count:
            raise ValueError(
                f"{score.name} needs rollout.evaluation.count={data.evaluation.count} to be at least {score.k}"
            )


def find_last(cfg: DictConfig) -> bool:
    """`ckpt_path=last` is the run folder's own checkpoint, or the start where there is none yet."""
    if cfg.ckpt_path != "last":
        return False
    path = Path(cfg.paths.output) / files.LAST_CHECKPOINT
    cfg.ckpt_path = str(path) if os.path.lexists(path) else None  # a link to what is gone is no start
    return True


def go_on(cfg: DictConfig, control: "Controller", settings: dict[str, Any], own: bool = False) -> None:
    """Raises BadInput for a checkpoint of another controller, and for one that has learnt all that is asked for.

    But a run's `own` may lack only its last evaluation.
    """
    from isentropic.policy.checkpoint_checks import check

    if cfg.ckpt_path:
        with bad_input("ckpt_path"):
            state = check(cfg.ckpt_path, cfg.policy.model.path, plain(cfg, "policy.adapter"))
            control.load_state_dict(state["control"])
            say_differences(settings, state.get("settings", {}))
            if state["rollouts"] >= cfg.rollout.steps + own:
                raise ValueError(
                    f"ckpt_path={cfg.ckpt_path} has learnt from {state['rollouts']} rollouts, and "
                    f"rollout.steps={cfg.rollout.steps} asks for no more; raise rollout.steps to go on"
                )


def describe(cfg: DictConfig, trainer: "Trainer") -> None:
    """Tells the settings to the loggers that keep a run elsewhere than in its folder, where config.yaml is."""
    from lightning.pytorch.loggers import CSVLogger

    for logger in trainer.loggers:
        if not isinstance(logger, CSVLogger):
            logger.log_hyperparams({str(key): plain(cfg, str(key)) for key in cfg if key != "hydra"})


def tell(notes: list[str], folder: Path) -> None:
    """How answers are judged, on the screen and in the run's folder, where a weaker cage must be seen."""
    if notes and rank() == 0:
        print("\n".join(notes), flush=True)
        files.write_whole(folder / files.CAGE, "".join(f"{note}\n" for note in notes))


def set_aside(metrics: Path, resumed: bool) -> None:
    """Those of an earlier run in the same folder, which the logger would delete: `metrics.1.csv` is a part of this run.

    What this run does not go on with becomes `metrics.csv.1`, which nobody takes for a part.
    """
    for file in [metrics] if resumed else sorted(metrics.parent.glob("metrics*.csv")):
        if file.exists():
            names = (f"metrics.{i}.csv" if resumed else f"{file.name}.{i}" for i in count(1))
            kept = next(path for name in names if not (path := file.with_name(name)).exists())
            file.rename(kept)
            print(f"the metrics of the earlier run in this folder are kept in {kept}", flush=True)


def fall_back(cfg: DictConfig) -> None:
    """Where vLLM is not to be had, transformers answers, with the settings that the two share."""
    from isentropic.sampler.vllm.colocated import available

    if cfg.sampler._target_.endswith(".VllmSampler") and not available():
        print("vLLM is not installed here; going on with sampler=transformers", flush=True)
        other = OmegaConf.load(CONFIGS / "sampler" / "transformers.yaml")
        shared = {key: cfg.sampler[key] for key in other if key in cfg.sampler and key != "_target_"}
        OmegaConf.update(cfg, "sampler", OmegaConf.merge(other, shared), merge=False, force_add=True)


if __name__ == "__main__":
    train()
