from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from isentropic.logger.tensorboard import TensorBoard


def test_metrics_are_written_under_the_names_of_the_alias_and_a_run_goes_on_in_its_folder(tmp_path):
    for step in (1, 2):
        logger = TensorBoard(
            str(tmp_path), "tensorboard", "", False, alias="trl", task="isentropic.task.countdown.Task"
        )
        logger.log_metrics({"entropy/mean": 0.5 / step, "control/up": 1.0}, step)
        logger.finalize("success")
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert sorted(events.Tags()["scalars"]) == ["control/up", "entropy"]
    assert [(event.step, event.value) for event in events.Scalars("entropy")] == [(1, 0.5), (2, 0.25)]
