import pytest

from isentropic.commands.plan import of_preset
from isentropic.planning.page import END, START, page


def test_a_page_without_the_marks_is_refused():
    with pytest.raises(ValueError, match="must have the lines <!-- runs"):
        page("# A page\n", of_preset, [])
    with pytest.raises(ValueError, match="must have the lines"):
        page(f"{START}\nno {END[1:]}\n", of_preset, [])
