"""The name that was probably meant."""

import pytest

from isentropic.config.nearest import nearest


@pytest.mark.parametrize(
    ("written", "meant"), [("gpro", "grpo"), ("gtp", "gtpo"), ("stera", "stare"), ("dappo", "dapo"), ("elephant", None)]
)
def test_letters_that_changed_places_are_nearer_than_another_letter(written: str, meant: str | None):
    assert nearest(written, ["dapo", "grpo", "gtpo", "stare", "steer"]) == meant
