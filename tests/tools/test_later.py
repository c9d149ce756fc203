import subprocess
import sys

import pytest

from isentropic.tools.later import later


@pytest.fixture
def drawing(tmp_path, monkeypatch):
    """A package that says when it is loaded, and a module that imports it."""
    (tmp_path / "drawing_late.py").write_text("import sys\nsys.loaded_late = True\ndef line():\n    return 'line'\n")
    (tmp_path / "uses_drawing_late.py").write_text("import drawing_late\ndef draw():\n    return drawing_late.line()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "loaded_late", False, raising=False)
    yield
    for name in ("drawing_late", "uses_drawing_late"):
        sys.modules.pop(name, None)


def test_a_package_is_loaded_when_something_in_it_is_used(drawing):
    with later("drawing_late"):
        import uses_drawing_late
    assert not sys.loaded_late and "drawing_late" not in sys.modules
    assert uses_drawing_late.draw() == "line" and sys.loaded_late
    with pytest.raises(AttributeError, match="circle"):
        _ = uses_drawing_late.drawing_late.circle


def test_what_is_loaded_already_stays(drawing):
    import drawing_late

    with later("drawing_late"):
        import uses_drawing_late
    assert uses_drawing_late.drawing_late is drawing_late is sys.modules["drawing_late"]


def test_what_asks_too_early_is_told(drawing):
    with later("drawing_late"), pytest.raises(AttributeError, match="drawing_late is not loaded yet and has no line"):
        _ = sys.modules["drawing_late"].line
    assert "drawing_late" not in sys.modules


def test_what_is_known_of_it_is_there_at_once(drawing):
    with later("drawing_late", colour="red"):
        import uses_drawing_late

        assert uses_drawing_late.drawing_late.colour == "red" and not sys.loaded_late
    assert uses_drawing_late.draw() == "line"


@pytest.mark.slow
def test_lightning_comes_without_what_filters_sound_which_is_there_all_the_same():
    program = """if True:
        import sys
        from isentropic.tools.later import later
        with later("scipy.signal", hamming=None):
            import lightning
        assert "torchmetrics" in sys.modules and "scipy.signal" not in sys.modules
        import scipy.signal
        assert scipy.signal.windows.hamming(3)[1] == 1
    """
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})


def test_reasoning_gym_is_there_without_what_draws_and_its_task_that_needs_it_finds_it():
    program = """if True:
        import sys
        from isentropic.task.reasoning_gym import dataset
        assert "matplotlib" not in sys.modules and "cellpylib" not in sys.modules
        assert dataset("game_of_life", (), 0)[0]["answer"]
        assert "cellpylib" in sys.modules
    """
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(filter(None, sys.path))})
