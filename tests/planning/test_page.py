import pytest

from isentropic.plan import composed, of_preset, planned
from isentropic.planning.page import END, START, page


def test_a_page_without_the_marks_is_refused():
    plan = planned(composed())
    with pytest.raises(ValueError, match="must have the lines <!-- runs"):
        page("# A page\n", of_preset, plan, plan)
    with pytest.raises(ValueError, match="must have the lines"):
        page(f"{START}\nno {END[1:]}\n", of_preset, plan, plan)
