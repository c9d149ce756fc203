"""What a model's folder says of its own settings."""

import pytest

from isentropic.config.build import BadInput
from isentropic.config.exam import experiment_of


@pytest.mark.parametrize("text", ["[]", '{"name": 1}', '{"experiment": null}'])
def test_a_hint_that_names_no_experiment_is_a_sentence(tmp_path, text):
    assert experiment_of(str(tmp_path)) is None
    (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(BadInput, match=r'evaluation\.json: it must be as \{"experiment": "quickstart"\}'):
        experiment_of(str(tmp_path))
    (tmp_path / "evaluation.json").write_text('{"experiment": "quickstart"}')
    assert experiment_of(str(tmp_path)) == "quickstart"
