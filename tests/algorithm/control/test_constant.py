from isentropic.algorithm.control.constant import Constant
from isentropic.batch import Drive, Vitals


def test_no_reading_matters():
    control = Constant(up=0.5, down=0.25)
    assert {control.update(Vitals(h, p)) for h, p in ((0.1, 0), (9.0, 1), (float("nan"), 0.5))} == {Drive(0.5, 0.25)}
    assert control.state_dict() == {}
