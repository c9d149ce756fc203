import json
from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from isentropic.sampler.ends import closing_tokens, ends_by, ends_of

PIECES = ["<eos>", *"</tol_ca>1\n", "</", "tool", "_call", ">\n", "l>", "l>1", "1<", "Ã©", "Ã", "©"]


@pytest.fixture(scope="module")
def pieces():
    """Byte-level pieces by which </tool_call> can be written in several ways."""
    vocabulary = {piece.replace("\n", "Ċ"): token for token, piece in enumerate(PIECES)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<eos>"))
    characters = pre_tokenizers.Split(Regex("."), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Sequence(list(characters)), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>")


def ids(*written):
    return [PIECES.index(piece) for piece in written]


def test_the_model_and_its_tokenizer_say_what_ends_a_completion(tiny_model):
    assert ends_of(tiny_model, None).ids == [1]


def test_a_model_may_name_several_end_tokens(tiny_model, tmp_path):
    for file in Path(tiny_model).iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 23]}))
    assert ends_of(str(tmp_path), None).ids == [1, 23]


def test_a_stop_of_one_token_is_that_token(tiny_model):
    found = ends_of(tiny_model, ";")
    assert found.ids == [1, 16] and not found.closing
    assert found.met([5, 16]) and found.met([16, 1]) and not found.met([16, 5])


def test_a_stop_of_several_tokens_is_asked_about_at_those_that_may_close_it(tiny_model):
    found = ends_of(tiny_model, ">:")
    greater, colon = 18, 19
    assert found.tokens == {1} and found.closing == {colon}
    assert found.met([3, greater, colon]) and not found.met([greater, 3, colon]) and not found.met([greater])


@pytest.mark.parametrize(
    "written",
    [
        ("</", "tool", "_call", ">"),
        ("1<", "/", "tool", "_", "c", "a", "l", "l>"),
        ("</", "tool", "_", "c", "a", "l", "l>1"),
    ],
)
def test_a_stop_is_found_however_it_is_cut_and_what_its_last_token_holds_stays(pieces, written):
    stop = ends_by(pieces, "</tool_call>")
    tokens = ids("1", *written)
    assert [place for place in range(1, len(tokens) + 1) if stop.met(tokens[:place])] == [len(tokens)]


def test_only_tokens_that_hold_an_end_of_the_text_are_asked_about(pieces):
    assert closing_tokens(pieces, "</tool_call>") == set(ids(">", ">\n", "l>", "l>1"))


def test_parts_of_a_character_may_close_a_text(pieces):
    stop = ends_by(pieces, "1é")
    assert stop.met(ids("1", "Ã", "©")) and stop.met(ids("1", "Ã©")) and not stop.met(ids("l", "Ã", "©"))


def test_a_text_that_the_tokenizer_writes_otherwise_is_refused(tiny_model):
    with pytest.raises(ValueError, match=r"stop='call' becomes '.*' by the tokenizer of .*; take another text"):
        ends_of(tiny_model, "call")
