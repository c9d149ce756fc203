import getpass
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import torch
from fixtures.calculator import SHIPPED, check_calculator, started
from fixtures.models import ENGINE
from fixtures.processes import command_of, is_alive
from fixtures.servers import await_end, nothing_left, processes_of
from fixtures.talk import Talk, check_what_is_read

from isentropic.sampler import Decoding, Sampler, SamplerError
from isentropic.sampler.vllm import keeper
from isentropic.sampler.vllm.colocated import available
from isentropic.sampler.vllm.http import DIRECT, Service, kernels, serve
from isentropic.sampler.vllm.server import VllmServerSampler

pytestmark = pytest.mark.slow

needs_vllm = pytest.mark.skipif(not available(), reason="vLLM is not installed")

DECODING = Decoding(temperature=0.8, top_p=1.0, top_k=0, min_p=0.0, max_tokens=16, stop=None)
PROMPTS = [[2 + (i * j) % 18 for j in range(1 + 3 * i)] for i in range(9)]
SEEDS = [1000 + 4 * i for i in range(9)]
SHARED = [[2 + 7 * j % 18 for j in range(140)] + [2 + i] for i in range(9)]  # a block is 128 tokens on CPU


def settings(path, log, **changes):
    asked = {"url": None, "devices": None, "transfer": "file", "timeout": 900.0, "log": str(log)}
    return VllmServerSampler(str(path), **(ENGINE | asked | changes))


@pytest.fixture(scope="module")
def sampler(tiny_model, tmp_path_factory):
    sampler = settings(tiny_model, tmp_path_factory.mktemp("server") / "server.log")
    sampler.start()
    yield sampler
    sampler.stop()


def gap(groups, prompts, model, reference):
    """The largest difference between the server's log-probs and the model's."""
    return max(
        abs(ours - theirs)
        for prompt, group in zip(prompts, groups, strict=True)
        for one in group
        for ours, theirs in zip(one.logp, reference(model, prompt, one.tokens, DECODING.temperature), strict=True)
    )


def test_settings_it_does_not_know_are_refused(tmp_path):
    for change, said in (
        ({"dtype": "float16"}, "dtype=float16 is not one of float32, bfloat16"),
        ({"transfer": "mail"}, "transfer=mail is not one of nccl, file"),
        ({"logprobs": "some"}, "logprobs=some is not one of all, sample, none"),
        ({"timeout": 0.0}, "timeout=0.0 seconds is not above 0"),
        ({"url": "here"}, "url=here is not the URL of a server"),
    ):
        with pytest.raises(ValueError, match=said):
            settings("model", tmp_path / "log", **change)


def test_a_machine_without_cards_is_told_before_anything_starts(tmp_path):
    settings("model", tmp_path / "log").check_ranks(2)
    over_nccl = settings("model", tmp_path / "log", transfer="nccl")
    if torch.cuda.is_available():
        over_nccl.check_ranks(2)
    else:
        with pytest.raises(ValueError, match=r"sampler.transfer=nccl .* here is none; take file"):
            over_nccl.check_ranks(2)


def test_a_server_that_is_not_there_is_said_to_be_so(tiny_model, tmp_path):
    absent = settings(tiny_model, tmp_path / "log", url="http://127.0.0.1:9", timeout=0.1)
    with pytest.raises(RuntimeError, match=r"http://127.0.0.1:9 cannot be reached within 0.1 seconds"):
        absent.start()
    absent.stop()


@needs_vllm
def test_log_probs_follow_the_weights_that_were_sent(sampler, policy, reference):
    assert sampler.whole_completions  # else its scheduler is not ours
    sampler.update_weights(policy.state_dict().items())
    groups = sampler.sample(SHARED, 4, SEEDS, DECODING)
    assert gap(groups, SHARED, policy, reference) < 1e-4
    for weight in policy.parameters():
        weight.add_(0.2 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    sampler.update_weights(policy.state_dict().items())
    moved = sampler.sample(SHARED, 4, SEEDS, DECODING)
    assert moved != groups
    assert gap(moved, SHARED, policy, reference) < 1e-4  # neither an old head nor an old cache
    assert sampler.score(PROMPTS[5]) == pytest.approx(reference(policy, PROMPTS[5][:1], PROMPTS[5][1:], 1.0), abs=1e-4)


@needs_vllm
def test_at_temperature_zero_the_likeliest_tokens_come(sampler, policy):
    sampler.update_weights(policy.state_dict().items())
    greedy = replace(DECODING, temperature=0.0)
    answers = sampler.sample(PROMPTS, 1, SEEDS, greedy)
    assert [one.tokens for (one,) in sampler.sample(PROMPTS, 1, [1] * 9, greedy)] == [one.tokens for (one,) in answers]
    for prompt, (completion,) in zip(PROMPTS, answers, strict=True):
        likeliest = policy(torch.tensor([[*prompt, *completion.tokens]])).logits[0, len(prompt) - 1 : -1].argmax(-1)
        assert likeliest.tolist() == completion.tokens


@needs_vllm
def test_seeds_give_the_same_and_completions_end_as_they_should(sampler, policy):
    sampler.update_weights(policy.state_dict().items())
    together = sampler.sample(PROMPTS, 4, SEEDS, DECODING)
    assert [c.tokens for c in sampler.sample(PROMPTS[3:4], 4, SEEDS[3:4], DECODING)[0]] == [
        c.tokens for c in together[3]
    ]
    assert sampler.sample([], 4, [], DECODING) == []
    completions = [c for group in together for c in group]
    assert {c.finish for c in completions} == {"stop", "length"}
    for completion in completions:
        assert (completion.finish == "stop") == (completion.tokens[-1] == 1)
        assert len(completion.logp) == len(completion.tokens)
        assert completion.finish == "stop" or len(completion.tokens) == 16


@needs_vllm
@pytest.mark.parametrize("stop", [None, "9+"], ids=["own end", "a stop of two tokens"])
def test_rows_that_go_on_by_themselves_write_what_they_write_together(sampler, policy, reference, stop):
    sampler.update_weights(policy.state_dict().items())
    decoding, turns = replace(DECODING, stop=stop), [1, 6, 2, 3, 1, 4, 2, 5, 1]
    apart = Talk(PROMPTS, turns).play(sampler.converse, decoding)
    together = Talk(PROMPTS, turns).play(partial(Sampler.converse, sampler), decoding)
    assert [[one.tokens for _, one in row] for row in apart] == [[one.tokens for _, one in row] for row in together]
    assert [len(row) for row in apart] == turns
    for prompt, one in (turn for row in apart for turn in row):
        assert one.logp == pytest.approx(reference(policy, prompt, one.tokens, DECODING.temperature), abs=1e-4)


@needs_vllm
def test_a_server_that_ends_while_rows_talk_is_said_to_have_ended(sampler, policy, monkeypatch):
    sampler.update_weights(policy.state_dict().items())
    monkeypatch.setattr(sampler.service, "url", "http://127.0.0.1:9")
    with pytest.raises(SamplerError, match="cannot be reached"):
        Talk(PROMPTS, [3] * 9).play(sampler.converse, DECODING)


@needs_vllm
def test_a_second_turn_reads_only_what_the_first_did_not(sampler, policy):
    sampler.update_weights(policy.state_dict().items())
    check_what_is_read(sampler, policy, DECODING)


@needs_vllm
def test_a_server_with_a_scheduler_of_its_own_says_the_same(sampler, policy, tiny_model, monkeypatch, tmp_path):
    sampler.update_weights(policy.state_dict().items())
    whole = sampler.sample(PROMPTS, 2, SEEDS, DECODING)
    monkeypatch.setattr(sampler, "whole_completions", False)
    plain = sampler.sample(PROMPTS, 2, SEEDS, DECODING)
    for ours, theirs in zip(whole, plain, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            assert (one.tokens, one.finish) == (other.tokens, other.finish)
            assert one.logp == pytest.approx(other.logp, abs=1e-5)


@needs_vllm
@pytest.mark.parametrize("whole", [True, False])
def test_log_probs_of_a_sample_are_those_of_one_prompt_in_eight(sampler, policy, monkeypatch, whole):
    sampler.update_weights(policy.state_dict().items())
    monkeypatch.setattr(sampler, "logprobs", "sample")
    monkeypatch.setattr(sampler, "whole_completions", whole)
    assert not sampler.returns_logprobs
    groups = sampler.sample(PROMPTS, 2, SEEDS, DECODING)
    assert [all(c.logp is not None for c in group) for group in groups] == [place % 8 == 0 for place in range(9)]


@needs_vllm
def test_a_load_that_lacks_a_weight_leaves_no_sampler(sampler, policy):
    with pytest.raises(ValueError, match=r"1 weights did not come, lm_head.weight among them"):
        sampler.update_weights(policy.named_parameters())
    with pytest.raises(RuntimeError, match="has no weights"):
        sampler.sample(PROMPTS, 1, SEEDS, DECODING)
    with pytest.raises(ValueError, match="weight head is not one of the model"):
        sampler.update_weights([("head", torch.zeros(1))])


@needs_vllm
def test_somebody_else_s_server_is_checked_and_left_running(sampler, policy, tiny_model_untied, tmp_path):
    assert sampler.service
    url = sampler.service.url
    with pytest.raises(ValueError, match=r"the server at .* serves .*; it must serve"):
        settings(tiny_model_untied, tmp_path / "log", url=url).start()
    guest = settings(sampler.path, tmp_path / "log", url=url)
    guest.start()
    guest.update_weights(policy.state_dict().items())
    assert guest.sample(PROMPTS, 1, SEEDS, DECODING)
    guest.stop()
    assert sampler.score(PROMPTS[4])
    long = settings(sampler.path, tmp_path / "log", url=url, max_model_len=260)
    with pytest.raises(ValueError, match=r"reads 256 tokens, fewer than sampler\.max_model_len=260"):
        long.start()


@needs_vllm
def test_a_server_that_cannot_start_says_why(tiny_model, tmp_path):
    log = tmp_path / "server.log"
    broken = settings(tiny_model, log, tensor_parallel_size=3)
    with pytest.raises(
        RuntimeError, match=rf"the server that was started has ended with code 1; its log, {log}, says: "
    ):
        broken.start()
    broken.stop()


@needs_vllm
def test_a_server_ends_with_the_process_that_started_it(tmp_path):
    """Even one that is killed, and cannot end anything itself."""
    code = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from isentropic.sampler.vllm import http\n"
        "http.sys.executable = sys.argv[1]\n"
        "made = http.serve([], None, 5.0, Path(sys.argv[2]))\n"
        "print(made.process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\ncase "$2" in *keeper.py) exec {sys.executable} "$@";; esac\nexec sleep 600\n')
    fake.chmod(0o755)
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(fake), str(tmp_path / "log")],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    assert parent.stdout
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    for _ in range(3000):
        if not is_alive(child):
            return
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    pytest.fail("the server outlived the process that started it")


LISTENING = """
import os, socket, sys, time
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen(int(sys.argv[2]))
engine = os.fork()  # which has the socket too
if engine:
    print(engine, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("backlog", [64, 0])
def test_what_is_asked_of_a_server_ends_with_it_though_its_engine_holds_the_socket(tmp_path, backlog):
    """A connection that nobody takes is told of no end, and one for which there is no room does not come about."""
    path = tmp_path / "http"
    command = [sys.executable, "-c", LISTENING, str(path), str(backlog)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout
    engine = int(server.stdout.readline())
    service = Service(f"unix:{path}", 600.0, server, None)
    try:
        with ThreadPoolExecutor(4) as askers:
            asked = [askers.submit(service.call, "/version", get=True) for _ in range(4)]
            while len(service.asked) < 4:
                time.sleep(0.05)
            server.kill()
            for one in asked:
                with pytest.raises(SamplerError, match="the server that was started has ended with code -9"):
                    one.result()
        with pytest.raises(SamplerError, match="has ended with code -9"):
            service.call("/version", get=True)
    finally:
        os.kill(engine, signal.SIGKILL)
        service.process = None


def test_what_a_server_leaves_behind_ends_with_it(tmp_path):
    """Its engine is a process of its own, which may hold a card for as long as it waits for the other side."""
    server = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, start_new_session=True)
    assert server.stdout
    engine = int(server.stdout.readline())
    assert is_alive(engine)
    Service("http://127.0.0.1:9", 1.0, server, None).stop()
    end = time.monotonic() + 300
    while is_alive(engine):
        assert time.monotonic() < end


KEPT = """
import socket, sys, time
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    print("listens", flush=True)
    listener.accept()[0].close()
time.sleep(1)
sys.exit(3)
"""


def test_a_server_that_falls_is_said_to_have_ended_though_its_keeper_still_cleans_up():
    with tempfile.TemporaryDirectory(prefix="place-", dir="/tmp") as place:
        kept = subprocess.Popen([sys.executable, "-c", KEPT, f"{place}/http"], stdout=subprocess.PIPE)
        assert kept.stdout and kept.stdout.readline()
        with pytest.raises(SamplerError, match="the server that was started has ended with code 3"):
            Service(f"unix:{place}/http", 600.0, kept, None).call("/inference/v1/generate")


@pytest.fixture
def told_of(tmp_path, monkeypatch):
    """The variables of a server with these arguments, which is to be on card 3."""
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\ncase "$2" in *keeper.py) exec {sys.executable} "$@";; esac\nexec env\n')
    fake.chmod(0o755)

    def told(arguments):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "executable", str(fake))
            server = serve(arguments, "3", 300.0, tmp_path / "log")
        assert server.process and server.process.wait(300) == 0
        return (tmp_path / "log").read_text()

    return told


@needs_vllm
def test_nothing_of_how_the_trainer_was_started_reaches_the_server(told_of, monkeypatch):
    """With torchrun's variables its workers would wait for the agent's store."""
    for name in ("TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "MASTER_ADDR"):
        monkeypatch.setenv(name, "1")
    for name in ("WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "GITHUB_TOKEN", "DB_PASSWORD"):
        monkeypatch.setenv(name, "hidden")
    for name in ("PGPASSWORD", "SSHPASS", "OPENAI_APIKEY", "API_KEYS", "CI_JOB_TOKENS", "SSH_AUTH_SOCK", "GITHUB_PAT"):
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("DATABASE_URL", "postgres://me:hidden@host/db")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:shown@proxy:3128")
    monkeypatch.setenv("HF_TOKEN", "of the hub")
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
    said = told_of([])
    assert "CUDA_VISIBLE_DEVICES=3\n" in said and "VLLM_SERVER_DEV_MODE=1\n" in said
    assert f"TORCHINDUCTOR_CACHE_DIR={kernels()['TORCHINDUCTOR_CACHE_DIR']}\n" in said
    assert "HTTPS_PROXY=http://me:shown@proxy:3128\n" in said and "PWD=" in said
    assert "hidden" not in said and "HF_TOKEN=of the hub\n" in said and "TOKENIZERS_PARALLELISM=false\n" in said
    assert not any(line.startswith(("TORCHELASTIC", "RANK=", "WORLD_SIZE=", "MASTER_")) for line in said.splitlines())


@needs_vllm
def test_a_server_that_compiles_nothing_needs_no_compiler_on_a_cpu(told_of, monkeypatch):
    monkeypatch.delenv("TORCHDYNAMO_DISABLE", raising=False)
    assert "TORCHDYNAMO_DISABLE" not in told_of([])
    assert ("TORCHDYNAMO_DISABLE=1\n" in told_of(["--enforce-eager"])) == (not torch.cuda.is_available())


def test_kernels_are_kept_where_no_other_user_could_have_put_them(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    kept = Path(kernels()["TORCHINDUCTOR_CACHE_DIR"])
    assert kept.parent == tmp_path and kept.stat().st_mode & 0o77 == 0 and kernels()
    kept.rename(tmp_path / "another")
    if os.geteuid() == 0:
        kept.mkdir()
        os.chown(kept, 12345, 12345)
        assert kernels() == {}
        kept.rmdir()
        kept.symlink_to(tmp_path / "another")
        os.lchown(kept, 12345, 12345)
        assert kernels() == {}
    monkeypatch.setattr(getpass, "getuser", lambda: {}["nobody"])
    assert kernels() == {}


def test_no_proxy_stands_between_the_two(monkeypatch):
    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_) -> None:
            pass

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        Thread(target=server.handle_request, daemon=True).start()
        Service(f"http://127.0.0.1:{server.server_port}", 300.0, None, None).await_health()


USER = 12345
STRANGER = f"""
import os, socket, sys
os.setgroups([]); os.setgid({USER}); os.setuid({USER})
folder, *memory = sys.argv[1:]
for what, deed in (("folder", lambda: os.listdir(folder)), ("memory", lambda: [open(path, "rb") for path in memory]),
                   ("socket", lambda: socket.socket(socket.AF_UNIX).connect(folder + "/http"))):
    try:
        deed()
        print(what, "open")
    except PermissionError:
        print(what, "closed")
"""


@needs_vllm
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_no_other_user_reaches_a_server_or_reads_what_it_shares(sampler):
    """Whoever could would send it weights, or have it run code."""
    assert sampler.service and sampler.service.url.startswith("unix:")
    folder = Path(sampler.service.url.removeprefix("unix:")).parent
    shared = (folder / keeper.SHARED).read_text().split()
    memory = [str(keeper.MEMORY / name) for name in shared if (keeper.MEMORY / name).exists()]
    assert memory
    command = [sys.executable, "-I", "-c", STRANGER, str(folder), *memory]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if "Permission denied" in found.stderr:  # an interpreter in a folder of root's
        found = subprocess.run(["/usr/bin/python3", *command[1:]], capture_output=True, text=True, check=False)
    assert found.stdout.split("\n")[:3] == ["folder closed", "memory closed", "socket closed"], found


@needs_vllm
def test_a_server_listens_on_no_port_that_answers(sampler):
    """What its engine's ranks would meet each other by is of this machine alone, and speaks no HTTP."""
    assert sampler.service and sampler.service.process
    inodes = set()
    for pid in processes_of(sampler.service.process.pid):
        for handle in handles(pid):
            with suppress(OSError):
                inodes.add(os.readlink(handle).removeprefix("socket:[").removesuffix("]"))
    lines = [line for table in ("tcp", "tcp6") for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    listening = [words[1].split(":") for words in map(str.split, lines) if words[9] in inodes and words[3] == "0A"]
    assert {address for address, _ in listening} <= {"0100007F"}, "a socket of the server is open to other machines"
    with ThreadPoolExecutor(max(1, len(listening))) as askers:  # all at once: most are silent until the time is over
        assert not any(askers.map(answers, [int(port, 16) for _, port in listening]))


def handles(pid: int) -> list[Path]:
    with suppress(OSError):
        return [*Path(f"/proc/{pid}/fd").iterdir()]
    return []


def answers(port: int) -> bool:
    with suppress(OSError, HTTPException):
        DIRECT.open(f"http://127.0.0.1:{port}/health", timeout=5)
        return True
    return False


RUN = """
import sys, time
from pathlib import Path
from isentropic.sampler.vllm.server import VllmServerSampler
settings = dict(path=sys.argv[1], dtype="float32", max_model_len=64, max_num_seqs=64, max_num_batched_tokens=256,
                kv_cache_gib=0.03, gpu_memory_utilization=0.3, enforce_eager=True, tensor_parallel_size=1,
                logprobs="all", url=None, devices=None, transfer="file", timeout=900.0, log=sys.argv[2])
sampler = VllmServerSampler(**settings)
sampler.start()
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
sampler.update_weights(AutoModelForCausalLM.from_pretrained(sys.argv[1]).state_dict().items())
print(sampler.service.process.pid, sampler.service.url, flush=True)
time.sleep(600)
"""


@needs_vllm
def test_another_process_plays_over_a_server_of_which_nothing_is_left_when_its_trainer_is_killed(parts, tmp_path):
    """No process, no file and no shared memory. test_keeper.py ends trainers in other ways too."""
    with tempfile.TemporaryDirectory(prefix="place-", dir="/tmp") as place:
        variables = os.environ | {"TMPDIR": place, "PYTHONPATH": os.pathsep.join(sys.path)} | kernels()
        trainer = subprocess.Popen(
            [sys.executable, "-c", RUN, SHIPPED, str(tmp_path / "log")], env=variables, text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert trainer.stdout
        words = trainer.stdout.readline().split()
        assert words, (tmp_path / "log").read_text()[-2000:]
        pid, folder = int(words[0]), Path(words[1].removeprefix("unix:")).parent
        assert (folder / "weights" / "model.safetensors").exists() and folder.parent == Path(place)
        everyone, held = processes_of(pid), keeper.held(processes_of(pid))
        assert len(everyone) > 2 and held
        player = settings(SHIPPED, tmp_path / "none", url=words[1], max_model_len=64)
        check_calculator(parts, started(player))
        player.stop()
        trainer.kill()
        await_end(everyone, held)
        trainer.wait(300)
        assert [path.name for path in Path(place).iterdir() if path.name.startswith(keeper.PREFIX)] == []
        assert not [one for one in processes_of(pid) if keeper.begun(one)]  # a zombie has ended


@needs_vllm
def test_nothing_is_left_of_a_server_whose_engine_is_killed(sampler, policy):
    """The server goes too. The last to ask it; test_completions.py stops one that nobody killed."""
    sampler.update_weights(policy.state_dict().items())
    assert sampler.service
    assert list(Path(sampler.service.url.removeprefix("unix:")).parent.glob("weights/model.safetensors"))
    with nothing_left(sampler.service) as everyone:
        (engine,) = (one for one in everyone if "EngineCore" in command_of(one))
        os.kill(engine, signal.SIGKILL)
