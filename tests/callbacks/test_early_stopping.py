import pytest
from fixtures.models import saving

from isentropic.callbacks.early_stopping import EarlyStopping
from isentropic.callbacks.evaluate import Evaluate

SCORES = [0.1, 0.3, 0.2, 0.35, 0.3, 0.25, 0.4, 0.1]  # after 0, 2, 4, ... rollouts
EVERY = {"val_check_interval": 2, "check_val_every_n_epoch": None, "limit_val_batches": 1.0}


def rule(**settings):
    return EarlyStopping(**({"monitor": "eval/avg@8", "mode": "max", "patience": 2, "min_delta": 0.0} | settings))


@pytest.fixture
def judged(run, tiny):
    """Rollouts that were learnt from, by a policy whose evaluations are those of the list."""

    class Judged(tiny):
        def validation_step(self, batch, batch_idx):
            self.log_dict({"eval/avg@8": SCORES[self.rollouts // 2], "step": float(self.rollouts)})

    def learn(early, steps=14, **settings):
        module = Judged()
        run([Evaluate(), early, *settings.pop("further", ())], steps=steps, module=module, **EVERY, **settings)
        return module.rollouts

    return learn


@pytest.mark.parametrize(
    ("settings", "rollouts", "passed"),
    [
        ({}, 10, "0.35 in the last 2"),
        ({"min_delta": 0.06}, 6, "0.3 in the last 2"),
        ({"patience": 1}, 4, "0.3 in the last 1"),
        ({"mode": "min"}, 4, "0.1 in the last 2"),
        ({"patience": 3}, 14, None),
    ],
)
def test_a_run_ends_when_its_score_has_not_passed_the_best_for_so_many_evaluations(judged, settings, rollouts, passed):
    early = rule(**settings)
    assert judged(early) == rollouts
    assert passed is None or passed in early.why
    assert passed is not None or early.why is None, "a run that has ended by itself was not stopped"


def test_a_run_that_goes_on_stops_where_one_that_was_never_stopped_does(judged, tmp_path):
    checkpoint = tmp_path / "checkpoints" / "last.ckpt"
    assert judged(rule(), steps=8, further=[saving(99)], enable_checkpointing=True) == 8
    (tmp_path / "metrics.csv").rename(tmp_path / "metrics.1.csv")
    on = rule()
    assert judged(on, further=[saving(99)], enable_checkpointing=True, ckpt_path=checkpoint) == 10
    assert "0.35 in the last 2" in on.why
    (tmp_path / "metrics.csv").rename(tmp_path / "metrics.2.csv")
    again = rule()  # from the checkpoint of the evaluation that ended it
    assert judged(again, further=[saving(99)], enable_checkpointing=True, ckpt_path=checkpoint) == 10
    patient = rule(patience=3)
    assert judged(patient, further=[saving(99)], enable_checkpointing=True, ckpt_path=checkpoint) == 14


def test_what_no_evaluation_tells_and_the_test_split_are_refused():
    with pytest.raises(ValueError, match="patience=0 must be at least 1 evaluation"):
        rule(patience=0)
    with pytest.raises(ValueError, match=r"min_delta=-1\.0 must not be negative"):
        rule(min_delta=-1.0)
    with pytest.raises(ValueError, match="monitor=eval/avg@8 is no score of an evaluation; there are eval/pass@2"):
        rule().check("validation", ["eval/pass@2"])
    with pytest.raises(ValueError, match="would end the run by the test split"):
        rule().check("test", ["eval/avg@8"])
    rule().check("validation", ["eval/avg@8"])
