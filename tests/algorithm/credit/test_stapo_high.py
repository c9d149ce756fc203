import pytest

from isentropic.algorithm.credit.stapo_high import StapoHigh

NO_DUAL = "algorithm.clipping.ceiling=inf"


@pytest.mark.golden
def test_the_uncertain_of_the_rare_tokens_are_left_out(build, charge, paper):
    loss, _, metrics, credit = charge(build("algorithm=stapo_high", NO_DUAL), *paper)
    # rare: (0, 1), (2, 0), (2, 2) with entropies 0.05, 1.8, 2.5, whose quantile of 0.25 is 0.925
    assert (paper[0].mask & ~credit.mask).nonzero().tolist() == [[2, 0], [2, 2]]
    assert metrics["credit/stapo_high"] == pytest.approx(2 / 14)
    # 14 of 0.585597 without what (2, 0) and (2, 2) gain, 0.866024 * (1.111111 + 0.833333), by 12
    assert loss == pytest.approx((14 * 0.585597 + 0.866024 * 1.944444) / 12, abs=3e-6)


@pytest.mark.golden
@pytest.mark.parametrize("q", [0.2, 0.5, 0.75, 1.0])
def test_as_many_are_left_out_as_by_low_entropy(build, charge, paper, q):
    found = [
        charge(build(f"algorithm={name}", f"algorithm.credit.{name}.q={q}"), *paper)[3].mask.sum()
        for name in ("stapo", "stapo_high", "stapo_random")
    ]
    assert found[0] == found[1] == found[2]


@pytest.mark.identity
def test_a_share_of_zero_is_just_rl(build, charge, paper):
    assert charge(build("algorithm=stapo_high", "algorithm.credit.stapo_high.q=0"), *paper)[0] == pytest.approx(
        charge(build("algorithm=just_rl"), *paper)[0]
    )


@pytest.mark.parametrize("values, named", [((0, 0.5), "probability=0"), ((0.1, 1.5), "q=1.5")])
def test_settings_that_make_no_sense_are_refused(values, named):
    with pytest.raises(ValueError, match=rf"credit\.stapo_high\.{named}"):
        StapoHigh(*values, "linear")
