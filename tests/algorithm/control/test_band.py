import pytest

from isentropic.algorithm.control.band import Band
from isentropic.batch import Drive, Vitals

NAN = float("nan")


def band(cosine=False, **changed):
    return Band(
        **{"upper_start": 0.7, "upper_end": 0.5, "lower_start": 0.6, "lower_end": 0.4, "cosine": cosine} | changed
    )


@pytest.mark.golden
@pytest.mark.parametrize(
    "cosine, progress, lower, upper",
    [
        (False, 0, 0.6, 0.7),
        (False, 0.25, 0.55, 0.65),
        (False, 1, 0.4, 0.5),
        (True, 0, 0.6, 0.7),
        (True, 0.25, 0.570711, 0.670711),  # (1 - cos 45 degrees) / 2 = 0.146447 of the way
        (True, 0.5, 0.5, 0.6),
        (True, 1, 0.4, 0.5),
        (False, 1.5, 0.4, 0.5),  # a resumed run of fewer steps
    ],
)
def test_the_limits_come_down(cosine, progress, lower, upper):
    assert band(cosine).limits(progress) == pytest.approx((lower, upper), abs=1e-6)


def test_it_pushes_outside_of_the_band_alone():
    found = [band().update(Vitals(h, 0.0)) for h in (0.71, 0.7, 0.65, 0.6, 0.59)]
    assert found == [Drive(down=1), Drive(), Drive(), Drive(), Drive(up=1)]
    assert band().update(Vitals(0.55, 0.0)) == Drive(up=1) and band().update(Vitals(0.55, 1.0)) == Drive(down=1)


def test_what_is_no_number_leaves_the_last_push_also_over_a_checkpoint():
    control = band()
    assert control.update(Vitals(NAN, 0.0)) == Drive()
    control.update(Vitals(0.9, 0.0))
    resumed = band()
    resumed.load_state_dict(control.state_dict())
    assert resumed.update(Vitals(NAN, 0.1)) == Drive(down=1)


@pytest.mark.parametrize(
    "changed, named",
    [
        ({"lower_start": 0.8}, "lower_start=0.8 and upper_start=0.7"),
        ({"lower_end": -0.1}, "lower_end=-0.1"),
        ({"upper_end": NAN}, "upper_end=nan"),
    ],
)
def test_limits_that_make_no_sense_are_refused(changed, named):
    with pytest.raises(ValueError, match=rf"control\..*{named}"):
        band(**changed)
