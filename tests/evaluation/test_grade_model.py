"""A verifier model as grader: a tiny one from a folder, and a server that says what it was asked."""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from isentropic.config.build import BadInput
from isentropic.config.graders import graders_of
from isentropic.evaluation.grade_model import letter_of
from isentropic.evaluation.grader import Item

LETTERS = ["<pad>", "<eos>", "A", "B", "C"]
PROMPT = "graders.model.prompt='{question}|{gold_answer}|{llm_response}'"


@pytest.fixture(scope="module")
def verifier(tmp_path_factory):
    """Reads letters A, B and C, and takes all else for padding; it writes one of its five tokens."""
    folder = tmp_path_factory.mktemp("verifier")
    config = Qwen3Config(
        vocab_size=5, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, max_position_embeddings=512, tie_word_embeddings=False, pad_token_id=0,
        bos_token_id=None, eos_token_id=1, initializer_range=0.5,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        Qwen3ForCausalLM(config).save_pretrained(folder)
    tokens = Tokenizer(models.WordLevel({one: i for i, one in enumerate(LETTERS)}, unk_token="<pad>"))
    tokens.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokens.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(tokenizer_object=tokens, pad_token="<pad>", eos_token="<eos>").save_pretrained(folder)
    return str(folder)


def grader_of(model, *settings):
    (grader,) = graders_of([f"model:{model}"], [PROMPT, *settings]).values()
    return grader


@torch.no_grad()
def likeliest(folder, text, steps):
    """Token by token, without our sampler."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ids = [LETTERS.index(sign) if sign in LETTERS else 0 for sign in text]
    written = []
    for _ in range(steps):
        written.append(int(model(input_ids=torch.tensor([ids + written])).logits[0, -1].argmax()))
        if written[-1] == 1:
            break
    return "".join(LETTERS[token] for token in written if token > 1)


def test_a_model_in_a_folder_says_its_likeliest_word(verifier):
    grader = grader_of(verifier, "graders.model.max_tokens=2", "graders.model.sampler.max_model_len=128")
    items = [Item(question, "7", "B" * k) for question in ("A", "BB", "CA", "ABC") for k in range(4)]
    grades = grader.grade(items)
    wanted = [letter_of(likeliest(verifier, f"{one.question}|7|{one.text}", 2)) for one in items]
    assert [grade.status for grade in grades] == [
        {"A": "right", "B": "wrong", "C": "invalid", None: "unparseable"}[letter] for letter in wanted
    ]
    assert [grade.right for grade in grades] == [letter == "A" for letter in wanted]
    assert len(set(wanted)) > 1 and grader.only_wrong and grader.grade([]) == []
    grader.close()


def test_less_of_an_answer_is_read_where_all_of_it_does_not_fit(verifier):
    grader = grader_of(verifier, "graders.model.max_tokens=1", "graders.model.sampler.max_model_len=64")
    long, short = Item("A", "7", "C" * 1_000), Item("A", "7", "C" * 31)  # 2,000 characters, halved until they fit
    assert grader.grade([long])[0] == grader.grade([short])[0]
    assert grader.grade([Item("A" * 100, "7", "C")])[0].status == "unparseable", "the question alone does not fit"
    grader.close()


@contextmanager
def server(answer):
    """With the routes of vLLM; `answer` gets what a request holds, and gives a code and a text."""
    asked = []

    class Served(BaseHTTPRequestHandler):
        def do_GET(self):
            self.reply(200, {"data": [{"id": "verifier"}]})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(body)
            code, text = answer(body["messages"][0]["content"])
            self.reply(code, {"choices": [{"message": {"content": text}}]})

        def reply(self, code, content):
            data = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Served) as served:
        Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}", asked
        served.shutdown()


def test_a_server_is_asked_with_the_question_the_gold_and_the_end_of_the_answer():
    with server(lambda text: (200, "A" if text.endswith("good") else "B")) as (url, asked):
        grader = grader_of(url, "graders.model.tail=10")
        grades = grader.grade([Item("what?", "{question}", "x" * 50 + "is good"), Item("why?", "2", "bad")])
    assert [(grade.right, grade.status) for grade in grades] == [(True, "right"), (False, "wrong")]
    sent = sorted(body["messages"][0]["content"] for body in asked)
    assert sent == ["what?|{question}|xxxis good", "why?|2|bad"], "what stands in a gold or an answer fills no field"
    assert all((body["temperature"], body["model"]) == (0.0, "verifier") for body in asked)
    assert grader.name == f"model:{url.rpartition('/')[2]}"


def test_a_server_that_finds_a_request_too_long_is_sent_less():
    with server(lambda text: (400 if len(text) > 40 else 200, "A")) as (url, asked):
        grader = grader_of(url)
        assert grader.grade([Item("q", "1", "x" * 3_000)])[0].right
        assert grader.grade([Item("q" * 50, "1", "x")])[0].status == "unparseable"
    assert [len(body["messages"][0]["content"]) for body in asked][:3] == [2_004, 254, 35]


def test_a_server_that_fails_is_no_verdict():
    with (
        server(lambda _: (500, "")) as (url, _),
        pytest.raises(RuntimeError, match="answered /v1/chat/completions with 500"),
    ):
        grader_of(url).grade([Item("q", "1", "x")])


@pytest.mark.parametrize(
    ("said", "letter"),
    [
        ("A", "A"), (" B\n", "B"), ("C", "C"), ("CORRECT", "A"), ("INCORRECT", "B"), ("Invalid.", "C"),
        ("**A**", "A"), ("(B)", "B"), ("The letter is (C) and no other", "C"), (r"so \boxed{A} - CORRECT", "A"),
        ("Analysis: A is not B.\nFinal Judgment: \\boxed{B} - INCORRECT", "B"), ("Final Judgment: A", "A"),
        ("", None), ("no idea", None), ("Cannot say", None), ("ABC", None),
    ],
)  # fmt: skip
def test_the_letter_of_a_word_is_read(said, letter):
    assert letter_of(said) == letter


def test_the_prompt_is_the_verifiers_own_with_all_that_it_needs(verifier):
    (grader,) = graders_of([f"model:{verifier}"]).values()
    text = grader.request(Item("Why?", "42", "z" * 5_000), 2_000)
    assert text.startswith("Please as a grading expert")
    assert "<Original Question Begin>:\nWhy?\n" in text and "<Standard Answer Begin>:\n42\n" in text
    assert text.count("z" * 2_000) == 1 and "{" not in text.replace(r"\boxed{}", "")


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        ("nowhere", [], "nowhere is no model that can grade: neither a folder with a config.json nor a URL"),
        ("http://x", ["graders.model.doubt=2.0"], r"doubt=2.0 must be from 0 to 1"),
        ("http://x", ["graders.model.prompt=hello"], r"lacks \{question\}, \{gold_answer\}, \{llm_response\}"),
    ],
)
def test_a_model_that_cannot_grade_is_refused(model, settings, said):
    with pytest.raises(BadInput, match=said):
        graders_of([f"model:{model}"], settings)
