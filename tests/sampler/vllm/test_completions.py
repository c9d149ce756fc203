"""An ordinary vLLM server: the same answers as from an engine of ours, and sentences for what does not fit."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from fixtures.servers import nothing_left
from transformers import AutoTokenizer

from isentropic.sampler import Decoding
from isentropic.sampler.hf import TransformersSampler
from isentropic.sampler.vllm.colocated import available
from isentropic.sampler.vllm.completions import CompletionsSampler, check_tokenizer, completion_of, look
from isentropic.sampler.vllm.http import Service, serve

SHIPPED = Path(__file__).parents[3] / "src" / "isentropic" / "assets" / "countdown"
SAMPLED = Decoding(temperature=1.0, top_p=0.9, top_k=0, min_p=0.0, max_tokens=32, stop=None)
GREEDY = Decoding(temperature=0.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=32, stop=None)
TEXTS = ["3,8,5,2>24:", "1,2,3,4>10:", "9,9,1,1>18:"]
ARGUMENTS = [
    "--model", str(SHIPPED), "--dtype", "float32", "--max-model-len", "128", "--enforce-eager", "--max-num-seqs", "16",
    "--kv-cache-memory-bytes", str(2**25), "--no-enable-chunked-prefill", "--max-num-batched-tokens", "128",
]  # fmt: skip


def prompts():
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    return [tokenizer.encode(text) for text in TEXTS]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    if not available():
        pytest.skip("vLLM is not installed")
    service = serve(ARGUMENTS, None, 400.0, tmp_path_factory.mktemp("server") / "log")
    service.await_health()
    yield service
    service.stop()


def sampler_of(url, **changes):
    return CompletionsSampler(
        **{"url": url, "path": str(SHIPPED), "model": None, "max_model_len": 64, "max_num_seqs": 8, "timeout": 60.0}
        | changes
    )


@pytest.mark.slow
def test_greedy_answers_are_those_of_the_model(server):
    sampler, other = sampler_of(server.url), TransformersSampler(str(SHIPPED), "float32", "cpu", 64, 8)
    sampler.start(), other.start()
    ours, theirs = (one.sample(prompts(), 1, [1, 2, 3], GREEDY) for one in (sampler, other))
    assert [(one.tokens, one.finish) for (one,) in ours] == [(one.tokens, one.finish) for (one,) in theirs]


@pytest.mark.slow
def test_seeds_fix_answers_and_each_child_has_its_own(server):
    sampler = sampler_of(server.url)
    sampler.start()
    first = sampler.sample(prompts(), 4, [10, 20, 30], SAMPLED)
    assert sampler.sample(prompts(), 4, [10, 20, 30], SAMPLED) == first
    alone = sampler.sample(prompts()[:1], 1, [12], SAMPLED)
    assert alone[0][0] == first[0][2] and len({tuple(one.tokens) for group in first for one in group}) > 3
    assert sampler.sample([], 1, [], SAMPLED) == []


@pytest.mark.slow
def test_the_stop_text_ends_an_answer_and_stays_in_it(server):
    sampler = sampler_of(server.url)
    sampler.start()
    semicolon = AutoTokenizer.from_pretrained(SHIPPED).encode(";", add_special_tokens=False)[0]
    (answer,) = sampler.sample(prompts()[:1], 1, [1], Decoding(0.0, 1.0, 0, 0.0, 32, stop=";"))[0]
    assert answer.tokens[-1] == semicolon and answer.finish == "stop" and answer.tokens.count(semicolon) == 1


@pytest.mark.slow
def test_another_model_is_refused(server, tiny_model):
    found = look(server, None)
    assert (found.name, found.root, found.max_model_len) == (str(SHIPPED), str(SHIPPED), 128)
    assert look(server, str(SHIPPED)) == found
    with pytest.raises(ValueError, match=r"serves .*countdown; server.model=other is another model"):
        look(server, "other")
    check_tokenizer(server, found, AutoTokenizer.from_pretrained(SHIPPED))
    other = AutoTokenizer.from_pretrained(SHIPPED)
    other.add_tokens(["12"])
    with pytest.raises(ValueError, match="whose tokens are not those of the tokenizer"):
        check_tokenizer(server, found, other)
    with pytest.raises(ValueError, match="reads 128 tokens, fewer than 256"):
        sampler_of(server.url, max_model_len=256).start()


@pytest.mark.slow
def test_a_lost_server_is_said(server):
    sampler = sampler_of("http://127.0.0.1:9", timeout=0.5)
    with pytest.raises(RuntimeError, match=r"cannot be reached within 0\.5 seconds"):
        sampler.start()
    with pytest.raises(ValueError, match="keeps its own weights"):
        sampler.update_weights([])


@pytest.mark.slow
def test_nothing_is_left_of_a_server_that_is_stopped(server):
    """The last to ask it; test_server.py kills one's engine and another's trainer."""
    with nothing_left(server):
        server.stop()


@pytest.fixture
def web_server():
    """What is no vLLM, on this machine."""
    said = {"/version": "{}"}

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said[self.path].encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", said
    server.shutdown()


@pytest.mark.parametrize(
    "version, error",
    [("<html>", "is no vLLM server"), ("{}", "is no vLLM server"), ("[]", "is no vLLM server"),
     (json.dumps({"version": "0.9.1"}), "is vLLM 0.9.1; it must be from 0.26 and below 0.34")],
)  # fmt: skip
def test_what_is_no_server_of_a_known_release_is_said(web_server, version, error):
    url, said = web_server
    said["/version"] = version
    with pytest.raises(ValueError, match=error):
        look(Service(url, 5.0, None, None), None)


@pytest.mark.parametrize(
    "models, error",
    [('{"data": []}', "serves no model"), ("[]", "serves no model"), ("{}", "serves no model"),
     ("<html> Log in", "answered /v1/models with what is no JSON: <html> Log in")],
)  # fmt: skip
def test_a_server_without_a_model_is_said(web_server, models, error):
    url, said = web_server
    said |= {"/version": json.dumps({"version": "0.28.0"}), "/v1/models": models}
    with pytest.raises((ValueError, RuntimeError), match=error):
        look(Service(url, 5.0, None, None), None)


def test_the_v1_of_its_routes_may_stand_in_a_url(web_server):
    url, said = web_server
    model = {"id": "m", "root": "/models/m", "max_model_len": 64}
    said |= {"/version": json.dumps({"version": "0.28.0"}), "/v1/models": json.dumps({"data": [model]})}
    for end in ("", "/", "/v1", "/v1/"):
        assert look(Service(url + end, 5.0, None, None), None).name == "m"


@pytest.mark.parametrize(
    "answer, error",
    [({"choices": [{"finish_reason": "abort", "token_ids": [1]}]}, "ended a completion by 'abort'"),
     ({"choices": [{"finish_reason": "stop", "text": "hello"}]}, "has no token ids"),
     ({"choices": [{"finish_reason": "stop", "token_ids": ["a"]}]}, "has no token ids"),
     ({"choices": [{"finish_reason": "length", "token_ids": [1] * 5}]}, "wrote 5 tokens, and was asked for 4 at most"),
     ({"choices": [{"finish_reason": "stop", "token_ids": [1]}], "model": "n"}, "the model m, and n answered"),
     ({"choices": []}, "has no completion"), ({"object": "error"}, "has no completion: {'object'"),
     ({"choices": [None]}, "has no completion"), ([], "has no completion"), (None, "has no completion")],
)  # fmt: skip
def test_what_is_no_completion_of_what_was_asked_is_an_error(answer, error):
    with pytest.raises(RuntimeError, match=error):
        completion_of(answer, "m", 4)


def test_a_completion_is_its_tokens_and_how_it_ended():
    answer = {"choices": [{"finish_reason": "length", "token_ids": [3, 1, 2]}], "model": "m"}
    assert (completion_of(answer, "m", 3).tokens, completion_of(answer, "m", 3).finish) == ([3, 1, 2], "length")
