import json

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from isentropic.rollout.prompts import PromptEncoder, check_written, examples_of, template_of
from isentropic.task import Problem

CHAT = (
    "{% for m in messages %}{% if m.role == 'system' %}*{% endif %}{{ m.content }};{% endfor %}"
    "{% if add_generation_prompt %}>{% endif %}"
)
ONLY_LAST = "{{ messages[-1].content }}>"
REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + CHAT


@pytest.fixture
def encoder(parts):
    def make(template=CHAT, chat=True, system=None, examples=(), **arguments):
        tokenizer = AutoTokenizer.from_pretrained(parts.model)
        tokenizer.chat_template = template
        return PromptEncoder(tokenizer, chat, system, examples, arguments)

    return make


def ids(parts, text):
    return [parts.symbols.index(symbol) for symbol in text]


def test_a_chat_is_system_examples_and_question(encoder, parts):
    examples = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]
    made = encoder(system="7", examples=examples)
    assert made.encode(Problem("1+2", 3)) == ids(parts, "*7;1+1;2;1+2;>")
    own = Problem("1+2", 3, before=({"role": "system", "content": "8"},))
    assert made.encode(own) == ids(parts, "*8;1+1;2;1+2;>")  # a row's own takes its place
    assert [m["role"] for m in made.messages(own)] == ["system", "user", "assistant", "user"]
    made.check(own)
    assert made.shown(own) == "*8;1+1;2;1+2;>"


def test_arguments_reach_the_template_and_those_it_does_not_read_are_refused(encoder, parts):
    template = CHAT + "{% if enable_thinking %}={% endif %}"
    assert encoder(template, enable_thinking=True).encode(Problem("1", 1)) == ids(parts, "1;>=")
    assert encoder(template, enable_thinking=False).encode(Problem("1", 1)) == ids(parts, "1;>")
    with pytest.raises(ValueError, match=r"template_arguments\.enable_thinkin is not .*; did you mean enable_thinking"):
        encoder(template, enable_thinkin=False)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"template": None}, r"chat=true, but the tokenizer of .* has no chat template; take chat=false"),
        ({"template": "{{ messages | length }}>"}, r"the chat template loses the question \('1\+2'\)"),
        ({"template": ONLY_LAST, "system": "7"}, r"the chat template loses a message of system \('7'\)"),
        ({"template": REFUSES, "system": "7"}, r"refuses messages of system, user \(System role not supported\)"),
        ({"template": CHAT.replace("}>{", "}<eos>{")}, r"the prompt ends with the end token <eos>, after which"),
        ({"template": CHAT + "{% if %}"}, r"the chat template is no Jinja \(line 1: Expected an expression"),
        ({"template": CHAT + "{{ messages[9].content }}"}, r"template refuses messages of user \(.*no element 9"),
        ({"chat": False, "system": "7"}, r"rollout\.system is for a chat, and rollout\.chat=false is plain text"),
    ],
)  # fmt: skip
def test_what_would_be_lost_is_one_sentence(encoder, settings, sentence):
    for asks in (
        (PromptEncoder.check, PromptEncoder.encode) if "template refuses" in sentence else (PromptEncoder.check,)
    ):
        with pytest.raises(ValueError, match=sentence):
            asks(encoder(**settings), Problem("1+2", 3))


def test_plain_text_has_no_place_for_messages(encoder):
    with pytest.raises(ValueError, match=r"chats with messages before the question \(system\), which"):
        encoder(chat=False).check(Problem("1+2", 3, before=({"role": "system", "content": "8"},)))


def test_a_tokenizer_that_appends_its_end_token_does_not_end_the_prompt_with_it(parts, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(parts.model)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="<pad> $A <eos>", special_tokens=[("<pad>", 0), ("<eos>", 1)]
    )
    made = PromptEncoder(tokenizer, False, None, (), {})
    assert tokenizer.encode("1+2")[-1] == 1 and made.encode(Problem("1+2", 3)) == [0, *ids(parts, "1+2")]
    made.check(Problem("1+2", 3))


def test_a_marker_that_decoding_takes_out_is_refused(parts):
    tokenizer = AutoTokenizer.from_pretrained(parts.model)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<answer>"]})
    made = PromptEncoder(tokenizer, False, None, (), {})
    with pytest.raises(ValueError, match=r"task\.marker looks for '<answer>' in answers, and"):
        made.check_written("task.marker", ["<answer>"])
    made.check_written("task.marker", ["Answer:", "</think>"])


def spelling(special=(), normalizer=None):
    """A tokenizer of single bytes."""
    signs = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={sign: number for number, sign in enumerate(signs)}, merges=[]))
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    if normalizer:
        made.normalizer = normalizer
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made)
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    return tokenizer


ACCENTS = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()])


@pytest.mark.parametrize(
    ("tokenizer", "text", "sentence"),
    [
        (spelling(normalizer=normalizers.Lowercase()), "Answer:", "the tokenizer makes 'answer:' of that"),
        (spelling(normalizer=ACCENTS), "Réponse :", "the tokenizer makes 'Reponse :' of that"),
        (spelling(normalizer=normalizers.NFKC()), "答案\uff1a", "the tokenizer makes '答案:' of that"),
        (spelling(normalizer=normalizers.Replace(" ", "")), "Final answer:", "makes 'Finalanswer:' of that"),
        (spelling([r"\boxed"]), r"\boxed{", r"decoding takes out \\boxed, a special token"),
        (spelling([AddedToken("####", lstrip=True, special=True)]), "####", "decoding takes out ####"),
        (spelling(["[ANS]"]), "So [ANS] ", r"decoding takes out \[ANS\]"),
        (spelling(["<answer>"]), "Answer:", None),
        (spelling(), "Réponse : 答案\uff1a", None),
    ],
)
def test_a_marker_that_comes_out_otherwise_is_refused(tokenizer, text, sentence):
    if sentence is None:
        return check_written(tokenizer, "task.marker", [text])
    with pytest.raises(ValueError, match=sentence):
        check_written(tokenizer, "task.marker", [text])


def test_templates_and_examples_are_texts_or_files(tmp_path):
    (tmp_path / "mine.jinja").write_text(CHAT)
    assert template_of(str(tmp_path / "mine.jinja")) == template_of(CHAT) == CHAT and template_of(None) is None
    with pytest.raises(ValueError, match=r"rollout\.chat_template=nowhere\.jinja is neither a file nor a template"):
        template_of("nowhere.jinja")
    messages = [{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}]
    (tmp_path / "few.jsonl").write_text("\n".join(map(json.dumps, messages)))
    (tmp_path / "few.json").write_text(json.dumps(messages))
    assert examples_of(str(tmp_path / "few.jsonl")) == examples_of(str(tmp_path / "few.json")) == examples_of(messages)
    with pytest.raises(ValueError, match=r"message 1 of rollout\.examples is .*; it must have a role and a content"):
        examples_of([{"user": "1+1"}])
    with pytest.raises(ValueError, match=r"rollout\.examples=nowhere\.json is not a file"):
        examples_of("nowhere.json")
    (tmp_path / "one.json").write_text(json.dumps(messages[0]))
    with pytest.raises(ValueError, match=r"one\.json is {'role': 'user'.*; it must be a list of messages"):
        examples_of(str(tmp_path / "one.json"))
    (tmp_path / "bytes").write_bytes(b"\xff")
    for read, key in ((examples_of, "rollout.examples"), (template_of, "rollout.chat_template")):
        with pytest.raises(ValueError, match=rf"{key}=.*bytes is not text in UTF-8"):
            read(str(tmp_path / "bytes"))


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize(
    "template, end",
    [
        (CHATML, "<|im_end|>"),
        ("{% for m in messages %}{{ m.role }}: {{ m.content }} <eos>{% endfor %}", "<eos>"),
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", None),
        ("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}", None),
        ("{{ raise_exception('no assistants here') }}", None),
    ],
)
def test_what_a_template_writes_after_an_answer_ends_it(tiny_model, template, end):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)  # as of a base model: its own end token is another
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    tokenizer.chat_template = template
    assert PromptEncoder(tokenizer, True, None, [], {}).answer_end == end
    assert PromptEncoder(tokenizer, False, None, [], {}).answer_end is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "maximum recursion depth"),
        ('[{"role": "user", "role": "system", "content": "?"}]', "role stands twice"),
        ('[{"role": "user", "content": "\\ud800"}]', "surrogates not allowed"),
        (f'[{{"role": "user", "content": "?", "id": {"9" * 5_000}}}]', "an integer of 5000 digits"),
    ],
)
def test_examples_that_cannot_be_read_are_one_sentence(text, reason, tmp_path):
    (tmp_path / "examples.json").write_text(text)
    with pytest.raises(ValueError, match=rf"rollout\.examples=.* is not JSON: .*{reason}"):
        examples_of(str(tmp_path / "examples.json"))


@pytest.mark.parametrize("path", ["a" * 5_000, "~nobody_here/a.json"])
def test_a_path_that_no_system_reads_is_one_sentence(path):
    for read, key in ((examples_of, "examples"), (template_of, "chat_template")):
        with pytest.raises(ValueError, match=rf"rollout\.{key}=.* is no path that can be read: "):
            read(path)
