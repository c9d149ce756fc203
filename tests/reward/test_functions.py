import sys

import pytest

from isentropic.reward.functions import function_at


def test_functions_are_found_in_packages_files_and_the_folder_of_the_run(functions, tmp_path, monkeypatch):
    assert function_at("math.sqrt")(9) == function_at("math:sqrt")(9) == 3
    assert function_at(functions("length"))(["abc"]) == [3.0]
    (tmp_path / "function_beside_the_run.py").write_text("def f():\n    return 5\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert function_at("function_beside_the_run.f")() == 5
    monkeypatch.delitem(sys.modules, "function_beside_the_run")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("sqrt", "'sqrt' is not the path of a function; write package.module.name or folder/file.py:name"),
        ("no_such_package.f", r"no_such_package\.f cannot be imported \(No module named 'no_such_package'\)"),
        ("nowhere.py:f", "nowhere.py:f does not exist: nowhere.py is not a file"),
        ("isentropic.reward.limits.witin", r"limits\.witin does not exist: .* has within, settled, awaited"),
        ("math.pi", r"math\.pi is 3\.14\d*, which cannot be called"),
    ],
)
def test_what_is_no_function_is_one_sentence(path, sentence):
    with pytest.raises(ValueError, match=sentence):
        function_at(path)
