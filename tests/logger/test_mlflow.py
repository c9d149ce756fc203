"""A real MLflow, with its runs in a database on the disk."""

from importlib.util import find_spec

import pytest
from omegaconf import OmegaConf

from isentropic.config.build import BadInput, build
from isentropic.config.compose import CONFIGS
from isentropic.logger.mlflow import MLflow, allowed

TASK = "isentropic.task.countdown.Countdown"


def logger(folder, **settings):
    given = {"experiment_name": "tried", "run_name": None, "run_id": None, "tags": ["a", "b"], "alias": None}
    return MLflow(
        save_dir=str(folder), tracking_uri=f"sqlite:///{folder.parent}/ml.db", task=TASK, **(given | settings)
    )


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("eval/avg@8", "eval/avg_at_8"),
        ("eval/math500[128]/avg@8", "eval/math500_128_/avg_at_8"),
        ("policy/grad_norm", "policy/grad_norm"),
    ],
)
def test_names_are_what_mlflow_takes(ours, theirs):
    assert allowed(ours) == theirs


def test_a_job_that_goes_on_in_its_folder_goes_on_in_its_run_and_tells_its_settings_once(tmp_path):
    pytest.importorskip("mlflow", reason="mlflow is not installed: pip install mlflow")
    folder = tmp_path / "algorithm=stare"
    for step, status in ((1, "failed"), (2, "success")):
        part = logger(folder)
        assert step == 2 or not folder.exists(), "a folder in which nothing has run yet"
        part.log_hyperparams({"rollout": {"steps": step}})
        part.log_metrics({"eval/avg@8": 0.5 * step, "eval/math500[128]/avg@8": float("nan")}, step)
        part.finalize(status)
    client, run = part.experiment, part.experiment.get_run(part.run_id)
    assert len(client.search_runs([part.experiment_id])) == 1
    assert (run.info.run_name, run.data.tags["tags"], run.data.params) == (folder.name, "a,b", {"rollout/steps": "1"})
    history = client.get_metric_history(part.run_id, "eval/avg_at_8")
    assert [(one.step, one.value) for one in history] == [(1, 0.5), (2, 1.0)]


def test_a_run_is_named_and_grouped_as_its_sweep_and_ends_as_it_ended(tmp_path):
    pytest.importorskip("mlflow", reason="mlflow is not installed: pip install mlflow")
    folder = tmp_path / "grid" / "one"
    (folder / ".hydra").mkdir(parents=True)
    (folder / ".hydra" / "overrides.yaml").write_text("[algorithm=stare, seed=1]")
    (folder.parent / "multirun.yaml").write_text("hydra: {overrides: {task: ['algorithm=grpo,stare', 'seed=0,1']}}")
    part = logger(folder, alias="verl")
    part.log_metrics({"entropy/mean": 0.5}, 1)
    part.finalize("failed")
    run = part._mlflow_client.get_run(part.run_id)
    assert (run.data.tags["group"], run.data.tags["job_type"], run.info.run_name) == ("grid", "stare", "one")
    assert run.data.metrics == {"actor/entropy": 0.5} and run.info.status == "FAILED"


@pytest.mark.parametrize(("name", "package"), [("mlflow", "mlflow"), ("comet", "comet-ml"), ("aim", "aim")])
def test_a_logger_whose_package_is_not_installed_says_what_to_install(tmp_path, name, package):
    if find_spec({"comet": "comet_ml"}.get(name, name)):
        pytest.skip(f"{package} is installed")
    cfg = OmegaConf.create({"logger": OmegaConf.load(CONFIGS / "logger" / f"{name}.yaml")})
    known = {"save_dir": str(tmp_path), "tags": [], "alias": None, "task": TASK, "repo": ".", "tracking_uri": "."}
    cfg.logger[name].update({key: value for key, value in known.items() if key in cfg.logger[name]})
    with pytest.raises(BadInput, match=f"logger={name} needs the package {package}; pip install {package}$"):
        build(cfg, f"logger.{name}")
