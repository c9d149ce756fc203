from isentropic.evaluation.pass_curve import curve


def points(*values, low=0.0):
    return [{"k": 2**i, "value": value, "low": low, "high": 1.0} for i, value in enumerate(values)]


def test_k_doubles_at_equal_steps_and_shares_fill_the_frame():
    made = curve({"a": points(0.0, 0.5, 1.0), "b": points(0.25, 0.25, low=None)})
    left, top, right, bottom = made.frame
    a, b = made.lines
    assert a.marks == [(left, bottom), ((left + right) / 2, (top + bottom) / 2), (right, top)]
    assert a.band and not b.band and a.colour != b.colour and a.dash != b.dash
    assert [k for _, k in made.across] == [1, 2, 4]
    assert made.words == "pass@k from k = 1 to 4: a 0.000 to 1.000; b 0.250 to 0.250"
