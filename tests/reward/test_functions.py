import sys

import pytest

from isentropic.reward.functions import asked_for, check_arguments, function_at
from isentropic.task import Problem


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


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("def f(:", r"cannot be imported \(SyntaxError: invalid syntax"),
        ("import no_such_package", r"cannot be imported \(No module named 'no_such_package'\)"),
        ("1 / 0", r"cannot be imported \(ZeroDivisionError: division by zero\)"),
        ("import sys; sys.exit(3)", r"cannot be imported \(SystemExit: 3\)"),
    ],
)
def test_a_file_that_cannot_run_is_one_sentence(tmp_path, code, sentence):
    (tmp_path / "broken.py").write_text(code)
    with pytest.raises(ValueError, match=sentence):
        function_at(f"{tmp_path / 'broken.py'}:f")


SIGNATURES = """
def plain(completions): ...
def by_keyword(*, completions, level): ...
def everything(**kwargs): ...
def rest(*args, completions, **kwargs): ...
def optional(completions, weight=3): ...
def positional(prompts, completions, /): ...
def several(*completions): ...
def none(): ...
def others(trainer_state, completions): ...
"""


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        *((name, None) for name in ("plain", "by_keyword", "everything", "rest", "optional")),
        ("positional", "takes prompts, completions by position; it is called by the names"),
        ("several", "takes nothing by name"),
        ("none", "takes nothing by name"),
        ("others", "asks for trainer_state, which the data lacks; its columns are level"),
    ],
)
def test_a_function_is_called_by_the_names_that_it_takes_or_refused_before_the_run(tmp_path, name, sentence):
    (tmp_path / "signatures.py").write_text(SIGNATURES)
    path, problem = f"{tmp_path / 'signatures.py'}:{name}", Problem("q", "a", columns={"level": 3})
    if sentence is None:
        check_arguments(path, ["prompts", "completions"], problem)
        function_at(path)(**asked_for(function_at(path), {"completions": ["c"], "prompts": ["p"], "level": [3]}))
    else:
        with pytest.raises(ValueError, match=sentence):
            check_arguments(path, ["prompts", "completions"], problem)
