"""A real Comet, without its servers: what it would send lies in archives in the run's folder."""

import json
import zipfile

import pytest

pytest.importorskip("comet_ml", reason="comet_ml is not installed: pip install comet-ml")

from isentropic.logger.comet import Comet


def messages(folder):
    """Of each part: the key of its experiment, and what was logged by our names."""
    for path in sorted((folder / "comet").glob("*.zip"), key=lambda path: path.stat().st_mtime_ns):
        with zipfile.ZipFile(path) as archive:
            lines = [json.loads(line)["payload"] for line in archive.read("messages.json").splitlines()]
            key = json.loads(archive.read("experiment.json"))["offline_id"]
        metrics = {one["metric"]["metricName"]: one["metric"]["metricValue"] for one in lines if one.get("metric")}
        params = [one["param"]["paramName"] for one in lines if one.get("param")]
        yield key, metrics.get("eval/avg@8"), [name for name in params if "steps" in name]


@pytest.mark.slow
def test_without_a_key_a_run_and_its_next_part_are_kept_as_one_experiment(tmp_path):
    folder = tmp_path / "algorithm=stare"
    for step, status in ((1, "failed"), (2, "success")):
        part = Comet(
            save_dir=str(folder), project="tried", name=None, experiment_key=None, offline=True, tags=["a"], alias=None,
            task="isentropic.task.countdown.Countdown", log_code=False, log_env_details=False,
        )  # fmt: skip
        part.log_hyperparams({"rollout": {"steps": step}})
        part.log_metrics({"eval/avg@8": 0.5 * step}, step)
        part.finalize(status)
        part.experiment.end()
    key = (folder / "comet" / "id.txt").read_text().strip()
    assert list(messages(folder)) == [(key, 0.5, ["rollout|steps"]), (key, 1.0, [])]
