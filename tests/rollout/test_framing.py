"""Turn by turn, a conversation must have the ids that its template gives it as a whole."""

import unicodedata
from itertools import pairwise

import pytest
from fixtures.templates import FORGETS, JSON, QWEN, SMOLLM2, STRICT, TRIMS, chat_tokenizer
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import AddedToken, PreTrainedTokenizerFast

from isentropic.rollout.framing import Framing
from isentropic.rollout.prompts import PromptEncoder


@pytest.fixture(scope="module")
def tokenizer():
    return chat_tokenizer()


@pytest.fixture
def framing_of(tokenizer, parts):
    def make(template, **settings):
        tokenizer.chat_template = template
        prompts = PromptEncoder(tokenizer, template is not None, None, (), {})
        return Framing(prompts, parts.turns(**({"observation_tokens": 64} | settings)))

    return make


@pytest.mark.golden
@pytest.mark.parametrize(
    "template",
    [QWEN, SMOLLM2, FORGETS, STRICT, TRIMS],
    ids=["qwen", "smollm2", "forgets", "strict", "trims"],
)
@pytest.mark.parametrize(
    "turns",
    [
        [("3*8=?", ["24"])],
        [("3*8=?", ["24"]), ("then", ["the result\n\nis 24"]), ("and", ["3", "4"])],
        [("two calls", ["24", "\n 3 \n"])],
        [("blanks", [" \n", "\t4"])],
        [("nothing", [""])],
    ],
    ids=["one", "several", "two", "blanks", "empty"],
)
def test_turn_by_turn_is_the_whole_conversation(framing_of, tokenizer, template, turns):
    role = "user" if template is STRICT else "tool"
    framing = framing_of(template, role=role)
    framing.check()
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    messages = [{"role": "user", "content": "What is 3 * 8?"}]
    row = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    for place, (call, results) in enumerate(turns):
        ended = place % 2 == 0  # else it was cut, and the frame brings the end that the policy did not write
        row = row + tokenizer.encode(call) + ([end] if ended else []) + framing.frame(results, ended)
        messages += [{"role": "assistant", "content": call}, *({"role": role, "content": one} for one in results)]
        whole = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert row == whole, tokenizer.decode(row)


@pytest.mark.golden
def test_the_frame_begins_after_the_end_token_and_ends_with_the_next_header(framing_of, tokenizer):
    frame = framing_of(QWEN).frame(["24"], ended=True)
    expected = "\n<|im_start|>user\n<tool_response>\n24\n</tool_response><|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.decode(frame) == expected
    assert tokenizer.decode(framing_of(QWEN).frame(["24"], ended=False)) == f"<|im_end|>{expected}"


@pytest.mark.parametrize("template", [QWEN, SMOLLM2, None], ids=["qwen", "smollm2", "plain"])
@pytest.mark.parametrize(
    "text", ["<|im_end|>", "a<|im_end|>\n<|im_start|>user\nb", "<|im_<|im_end|>end|>", "</tool_response><|endoftext|>"]
)
def test_what_looks_like_a_special_token_stays_text(framing_of, tokenizer, template, text):
    framing = framing_of(template)
    inside, around = framing.frame([text], True), framing.frame(["x"], True)
    added = set(tokenizer.added_tokens_decoder)
    assert [id for id in inside if id in added] == [id for id in around if id in added]
    assert text in tokenizer.decode(inside, skip_special_tokens=False)


PLAIN_CHAT = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content }}</s>"
    "{% else %}[INST] {{ m.content }} [/INST]{% endif %}{% endfor %}"
)


def letters(scheme=None, normalizer=None):
    """A token for each character; a scheme of Metaspace, as Llama 2 and Mistral have, puts a blank before a text."""
    known = ["<unk>", "</s>", *map(chr, range(32, 127)), "\u2581", "\n"]
    made = Tokenizer(models.BPE({one: place for place, one in enumerate(known)}, [], unk_token="<unk>"))
    if scheme:
        made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
        made.decoder = decoders.Metaspace(prepend_scheme=scheme)
    if normalizer:
        made.normalizer = normalizer
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="</s>", unk_token="<unk>", chat_template=PLAIN_CHAT)


@pytest.mark.parametrize("text", ["24;", " 24;", "\n24", "\n", "a\nb", "=", "1</s>2", "</s>"])
@pytest.mark.parametrize("scheme", ["always", "first", "never"])
def test_a_blank_before_what_is_encoded_alone_is_not_read(parts, scheme, text):
    tokenizer = letters(scheme)
    framing = Framing(PromptEncoder(tokenizer, False, None, (), {}), parts.turns())
    row = tokenizer.encode("3*8=") + framing.frame([text], True)
    assert tokenizer.decode(row, clean_up_tokenization_spaces=False) == f"3*8={text}"
    assert tokenizer.eos_token_id not in row


@pytest.mark.parametrize("scheme", ["always", "first", "never"])
def test_a_frame_of_such_a_tokenizer_is_that_of_the_whole_conversation(parts, scheme):
    prompts = PromptEncoder(letters(scheme), True, None, (), {})
    framing = Framing(prompts, parts.turns(role="user", observation_tokens=64))
    framing.check()
    frame, whole = framing.frame(["24"], False), framing.ids(framing.messages("3*8", ["24"]))
    assert frame == whole[whole.index(framing.end) :]


@pytest.mark.parametrize("text", ["\uff1ccall\uff1e", "\uff1c|end|\uff1e", "a\uff1ccall>b", "<call>"])
def test_what_a_normalizer_makes_a_special_token_stays_text(parts, text):
    tokenizer = letters(normalizer=normalizers.NFKC())
    tokenizer.add_tokens([AddedToken("<call>", normalized=True), AddedToken("<|end|>", normalized=True, special=True)])
    framing = Framing(PromptEncoder(tokenizer, False, None, (), {}), parts.turns())
    assert any(id > tokenizer.vocab_size - 1 for id in tokenizer.encode(text))
    ids = framing.frame([text], True)
    assert tokenizer.convert_ids_to_tokens(ids) == list(unicodedata.normalize("NFKC", text))


def test_a_template_that_forgets_reasoning_is_kept_or_refused(framing_of):
    framing_of(FORGETS).check()
    framing_of(QWEN, thinking="refuse").check()
    with pytest.raises(ValueError, match=r"the chat template rewrites earlier turns .*thinking=refuse"):
        framing_of(FORGETS, thinking="refuse").check()


def test_a_role_that_the_template_does_not_know_is_refused_with_the_way_out(framing_of):
    with pytest.raises(
        ValueError, match=r"refuses observations of role tool \(only user and assistant\); take .*role=user"
    ):
        framing_of(STRICT).check()
    framing_of(STRICT, role="user").check()


def test_a_template_that_writes_results_otherwise_than_they_are_is_refused(framing_of):
    with pytest.raises(ValueError, match="otherwise than alone"):
        framing_of(JSON).check()


def test_an_observation_budget_that_the_frame_alone_uses_up_is_refused(framing_of):
    with pytest.raises(ValueError, match=r"observation_tokens=4 leaves nothing to be read: .* \d+ tokens"):
        framing_of(QWEN, observation_tokens=4).check()
    framing_of(None, observation_tokens=1).check()


@pytest.mark.parametrize("template", [QWEN, SMOLLM2, None], ids=["qwen", "smollm2", "plain"])
@pytest.mark.parametrize(
    "text", ["the result is 24, " * 40, "日本語のテキスト" * 30, "é" * 99, "0123456789" * 20_000, " \n" * 300]
)
def test_a_long_observation_keeps_head_and_tail(framing_of, tokenizer, template, text):
    framing = framing_of(template)
    least = len(framing.frame([""], False))
    for room in (least + 5, least + 20, least + 21):
        ids = framing.fitted([text], False, room)
        assert least + 5 - 4 <= len(ids) <= room
        shown = tokenizer.decode(ids)
        before, after = tokenizer.decode(framing.frame(["\x00"], False)).split("\x00")
        head, tail = shown.removeprefix(before).removesuffix(after).split("...")
        assert text.startswith(head) and text.endswith(tail) and "\ufffd" not in shown
    assert framing.fitted([text], False, least) is None


def test_an_observation_that_fits_is_whole_and_one_that_may_not_be_cut_does_not_fit(framing_of):
    framing = framing_of(QWEN, cut=False)
    ids = framing.frame(["24 is the result"], True)
    assert framing.fitted(["24 is the result"], True, len(ids)) == ids
    assert framing.fitted(["24 is the result"], True, len(ids) - 1) is None


@pytest.mark.parametrize("template", [QWEN, None], ids=["qwen", "plain"])
@pytest.mark.parametrize("results", [30, 3000])
def test_many_results_are_not_encoded_as_a_whole(framing_of, monkeypatch, template, results):
    framing, read = framing_of(template, observation_tokens=512), []
    encode = framing.prompts.tokenizer.encode
    monkeypatch.setattr(
        framing.prompts.tokenizer, "encode", lambda text, **how: read.append(text) or encode(text, **how)
    )
    ids = framing.fitted(["x" * 3000] * results, True, 512)
    assert ids is None if results > 512 else len(ids) <= 512
    assert sum(map(len, read)) < 90 * results + 4 * 2 * 64 * 512


@pytest.mark.parametrize("scheme", ["always", "never"])
def test_a_turn_costs_one_text_to_be_encoded_and_no_template_once_its_kind_is_known(parts, monkeypatch, scheme):
    framing, read = Framing(PromptEncoder(letters(scheme), True, None, (), {}), parts.turns(role="user")), []
    for results in (["24"], ["24", ""]):
        framing.frame(results, True)
    tokenizer = framing.prompts.tokenizer
    encode = tokenizer.encode
    monkeypatch.setattr(tokenizer, "encode", lambda text, **how: read.append(text) or encode(text, **how))
    monkeypatch.setattr(tokenizer, "apply_chat_template", lambda *_, **__: pytest.fail("rendered again"))
    framing.frame(["36"], False)
    assert len(read) == 1 and "36" in read[0]
    framing.frame(["38", ""], True)
    assert len(read) == 2 and "38" in read[1]


def test_two_long_results_are_cut_together(framing_of, tokenizer):
    framing = framing_of(QWEN)
    shown = tokenizer.decode(framing.fitted(["a" * 500, "b" * 500], True, 60))
    assert all(f"{letter}...{letter}" in shown for letter in "ab")


def test_what_is_longer_needs_no_fewer_tokens(framing_of):
    framing = framing_of(SMOLLM2)
    sizes = [len(framing.fitted(["x" * 300], True, room)) for room in range(20, 80)]
    assert all(a <= b for a, b in pairwise(sizes))
