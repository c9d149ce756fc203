from itertools import pairwise

from isentropic.reporting.render.style import LINE, QUIET, REFERENCE, WIDE, End, canvas, label_ends, styles


def test_few_groups_are_all_in_colour_and_of_many_those_that_differ_are():
    assert QUIET not in styles(6, []) and len({look.colour for look in styles(6)}) == 6
    looks = styles(20, [7, 3])
    assert looks[0] == REFERENCE and [i for i, look in enumerate(looks) if look != QUIET] == [0, 3, 7]
    assert len({looks[i].colour for i in (0, 3, 7)}) == 3
    assert sum(look != QUIET for look in styles(30, list(range(1, 30)))) == 7


def test_labels_at_curves_ends_stand_in_order_and_never_on_each_other():
    figure = canvas(WIDE, 3)
    axis = figure.subplots(1, 1)
    axis.set_ylim(0, 1)
    heights = [0.5, 0.51, 0.5, 0.98, 0.99, 1.0, 0.02, 0.0, 0.52]
    label_ends(axis, [End(height, str(height), "0") for height in heights], 2.4)
    places = sorted((one.xyann[1], float(one.get_text())) for one in axis.texts)
    assert [text for _, text in places] == sorted(heights)
    gaps = [(upper - lower) * 2.4 for (lower, _), (upper, _) in pairwise(places)]
    assert min(gaps) > 0.99 * LINE and places[-1][0] < 1.1
