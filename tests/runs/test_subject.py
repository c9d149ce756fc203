"""What may be judged, and what is said of what may not."""

import shutil
import socket
from contextlib import closing

import pytest

from isentropic.runs.subject import check_reached, is_path, named, subject_of


def test_a_model_s_folder(tiny_model):
    subject = subject_of(tiny_model)
    assert (str(subject.model), subject.checkpoint, subject.url) == (tiny_model, None, None)
    assert tiny_model.endswith(subject.name)


@pytest.mark.parametrize("given", ["http://node7:8000", "http://node7:8000/", "http://node7:8000/v1/"])
def test_a_server_is_the_same_with_and_without_v1(given):
    subject = subject_of(given)
    assert (subject.name, subject.url) == ("node7-8000", "http://node7:8000")
    assert subject_of("HTTP://node7:8000").url == "HTTP://node7:8000"
    assert subject_of("http://node7:8000/a/v1").name != subject_of("http://node7:8000/b/v1").name


def test_a_password_is_refused_and_not_repeated():
    with pytest.raises(ValueError, match="subject is a URL with a name or a password") as refused:
        subject_of("http://me:secret@node7:8000")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{tmp}/none", "does not exist; give a model's folder, a checkpoint, a run's folder or a server's URL"),
        ("{tmp}/" + "x" * 300, "does not exist"),
        ("{tmp}/empty", "is neither a model's folder"),
        ("{tmp}/bare", "holds no weights"),
        ("{tmp}/cut.ckpt", "cannot be read as a checkpoint, and may be cut off"),
        ("http://", "names no server; write http://host:port"),
        ("http://node7:99999", "names no server: Port out of range"),
        ("https://[::1", "names no server: "),
        ("http://node7:8000/?model=a", "is a page of a server; write http://host:port"),
    ],
)
def test_what_is_no_subject_is_said_in_one_sentence(tiny_model, tmp_path, given, said):
    (tmp_path / "empty").mkdir(), (tmp_path / "bare").mkdir(), (tmp_path / "cut.ckpt").write_bytes(b"no checkpoint")
    shutil.copy(f"{tiny_model}/config.json", tmp_path / "bare")
    given = given.format(tmp=tmp_path)
    with pytest.raises(ValueError, match=said) as refused:
        subject_of(given)
    assert "\n" not in str(refused.value) and str(refused.value).startswith(f"subject={given} ")


def test_a_server_is_reached_where_something_listens():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        check_reached(url, 5)
    with pytest.raises(ValueError, match=r"cannot be reached within 5 seconds \("):
        check_reached(url, 5)


def test_names_of_folders_hold_nothing_odd():
    assert named("a b/c:d") == "a-b-c-d" and named("..") == "subject"


def test_a_place_is_told_from_a_name_on_the_hub():
    assert all(map(is_path, ("/models/x", "./x", "~/x", "logs/runs/x")))
    assert not is_path("Qwen/Qwen2.5-7B") and not is_path("gpt2")
