"""`vllm serve` as a process of ours, or of somebody else's at a URL, and what is asked of either over HTTP.

A server of ours listens on a socket in a folder that no other user may enter, since whoever reaches it may send it
weights or have it run code; the engine's own sockets and files lie there too.
"""

import getpass
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Thread
from typing import Any, cast
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

import torch

from isentropic.distributed import keep_to_this_machine
from isentropic.sampler import SamplerError
from isentropic.sampler.vllm import keeper

DIRECT = build_opener(ProxyHandler({}))  # a proxy leads out of a cluster, where no server of ours is
FIRST, BEYOND = (0, 26), (0, 34)  # releases of vLLM whose routes are these
# with these its workers would look for each other where the trainer's ranks do
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "GROUP_RANK")
AGENT = "TORCHELASTIC_"  # of torchrun
SOCKET = "unix:"  # what the URL of a server on this machine begins with that listens on a file
ENDING = keeper.PATIENCE + keeper.WITNESS + 7  # seconds that a keeper may take
JSON = {"Content-Type": "application/json"}
# of PGPASSWORD, SSH_AUTH_SOCK, AWS_ACCESS_KEY_ID, CI_APITOKEN; not of TOKENIZERS_PARALLELISM and PWD
SECRET = re.compile(
    r"(KEY|TOKEN)S?(_|$)|SECRET|PASSW|PASSPHRASE|CREDENTIAL|_(PASS|PWD|PAT|AUTH)(_|$)|SSHPASS", re.IGNORECASE
)
WITH_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@")  # of an address, such as that of a database
HUB = "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"


class NoJson(SamplerError):
    """A server's answer that cannot be read, as of a page for people."""


class Service:
    """A server at a URL, which may end in the /v1 of its routes.

    Raises SamplerError, in one sentence, where it cannot be reached or refuses.
    """

    def __init__(self, url: str, timeout: float, process: "subprocess.Popen[bytes] | None", log: Path | None) -> None:
        self.url = url.rstrip("/").removesuffix("/v1").rstrip("/")
        self.timeout, self.process, self.log = timeout, process, log
        self.asked: set[FileConnection] = set()
        if process is not None:
            Thread(target=self.cut, args=(process,), daemon=True).start()

    def cut(self, process: "subprocess.Popen[bytes]") -> None:
        """Ends what is asked of a process of ours that has ended: its engine, which was forked, holds the socket on."""
        while process.poll() is None:
            time.sleep(0.2)
        while self.process is process:
            for connection in list(self.asked):
                connection.cut()
            time.sleep(0.2)

    def call(self, route: str, body: Mapping[str, Any] | None = None, get: bool = False) -> Any:
        """What a route answers, out of JSON.

        Raises SamplerError where it is not reached, or answers with a code but 200, NoJson for what is none.
        """
        data = None if get else json.dumps(body or {}).encode()
        try:
            code, text = self.answer(route, data, self.timeout)
        except (URLError, OSError, HTTPException) as error:
            raise SamplerError(self.lost(error)) from error
        if code != 200 and self.process and self.process.poll() is not None:
            raise SamplerError(self.lost(OSError(f"it answered with {code}")))
        if code != 200:
            said = " ".join(text.decode(errors="replace").split())[:300]
            more = f"; its log, {self.log}, says more" if self.log and code >= 500 else ""
            raise SamplerError(f"the server at {self.url} answered {route} with {code}: {said}{more}")
        try:
            return json.loads(text) if text else None
        except ValueError as error:
            said = " ".join(text.decode(errors="replace").split())[:100]
            raise NoJson(f"the server at {self.url} answered {route} with what is no JSON: {said}") from error

    def answer(self, route: str, data: bytes | None, timeout: float) -> tuple[int, bytes]:
        """Status and body, over a connection of its own."""
        if self.url.startswith(SOCKET):
            with closing(FileConnection(self.url.removeprefix(SOCKET), timeout)) as connection:
                self.asked.add(connection)
                try:
                    connection.request("GET" if data is None else "POST", route, data, JSON)
                    answer = connection.getresponse()
                    return answer.status, answer.read()
                finally:
                    self.asked.discard(connection)
        try:
            with DIRECT.open(Request(f"{self.url}{route}", data, JSON), timeout=timeout) as answer:
                return answer.status, answer.read()
        except HTTPError as error:
            return error.code, error.read()

    def lost(self, error: Exception) -> str:
        """Why a request failed: the server has ended, with its log's last words, or cannot be reached."""
        if self.process and isinstance(getattr(error, "reason", error), ConnectionError | FileNotFoundError):
            with suppress(subprocess.TimeoutExpired):  # its keeper ends after it, once nothing is left of it
                self.process.wait(ENDING)
        if self.process and self.process.poll() is not None:
            return f"the server that was started has ended with code {self.process.returncode}; {self.last_words()}"
        reason = getattr(error, "reason", error)
        return f"the server at {self.url} cannot be reached within {self.timeout:g} seconds ({reason})"

    def last_words(self) -> str:
        """The last line of the log that names an error, or its last line, at most 300 characters."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log and self.log.exists() else []
        errors = [line.strip() for line in lines if "Error" in line] or [line.strip() for line in lines if line.strip()]
        return f"its log, {self.log}, says: {errors[-1][-300:]}" if errors else f"its log, {self.log}, is empty"

    def await_health(self) -> None:
        """Returns when /health answers 200; SamplerError once the process ended or `timeout` seconds have passed."""
        end = time.monotonic() + self.timeout
        while True:
            failure: Exception = OSError("it is not healthy")
            try:
                if self.answer("/health", None, 5)[0] == 200:
                    return
            except (URLError, OSError, HTTPException) as error:
                failure = error
            ended = self.process is not None and self.process.poll() is not None
            if ended or time.monotonic() > end:
                raise SamplerError(self.lost(failure)) from failure
            time.sleep(0.2)

    def read_tokens(self) -> tuple[int, int] | None:
        """Prompt tokens of all its requests so far, and those of them that were cached; None if it counts none."""
        try:
            code, text = self.answer("/metrics", None, self.timeout)
        except (URLError, OSError, HTTPException):
            return None
        counts = [
            [float(line.rsplit(" ", 1)[1]) for line in text.decode().splitlines() if line.startswith(f"vllm:{name}{{")]
            for name in ("prefix_cache_queries_total", "prefix_cache_hits_total")
        ]
        if code != 200 or not all(counts):
            return None
        read, cached = (int(sum(count)) for count in counts)
        return read, cached

    def check(self, path: str, context: int) -> None:
        """Raises ValueError for a server of another release or model, or one that reads fewer than `context` tokens."""
        check_release(self)
        served = models(self)[0]
        if Path(served["root"]).name != Path(path).name:
            raise ValueError(f"the server at {self.url} serves {served['root']}; it must serve {path}")
        if served["max_model_len"] < context:
            raise ValueError(
                f"the server at {self.url} reads {served['max_model_len']} tokens, fewer than "
                f"sampler.max_model_len={context}; start it with --max-model-len {context}"
            )

    def stop(self) -> None:
        """Ends it, if it is ours."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(ENDING)
        with suppress(ProcessLookupError):  # its engine may outlive it, and hold a card
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if self.url.startswith(SOCKET):
            keeper.stand_in(Path(self.url.removeprefix(SOCKET)).parent, self.process.pid)
        self.process = None


class FileConnection(HTTPConnection):
    """HTTP over a socket that is a file. One that is asked for waits as long as the others that are asked take."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self.path, self.over = path, False

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.setblocking(False)
        while not self.over:
            try:
                self.sock.connect(self.path)
            except BlockingIOError:  # many connect at one time
                time.sleep(0.05)
            else:
                return self.sock.settimeout(self.timeout)
        raise ConnectionError("it has ended")

    def cut(self) -> None:
        """From another thread: whoever waits for it is told that it has ended."""
        self.over = True
        with suppress(OSError, AttributeError):  # not connected yet, or closed by now
            self.sock.shutdown(socket.SHUT_RDWR)


def first_choice(answer: Any) -> dict[str, Any]:
    """Of a completion as OpenAI's servers answer it. Raises SamplerError where there is none."""
    try:
        choice = answer["choices"][0]
    except (KeyError, IndexError, TypeError) as error:
        raise SamplerError(f"the server's answer has no completion: {answer!s:.200}") from error
    if not isinstance(choice, dict):
        raise SamplerError(f"the server's answer has no completion: {answer!s:.200}")
    return cast(dict[str, Any], choice)


def models(service: Service) -> list[dict[str, Any]]:
    """That a server has, at least one. Raises ValueError where it has none, or does not say."""
    answer = service.call("/v1/models", get=True)
    found = cast(Mapping[str, Any], answer).get("data") if isinstance(answer, Mapping) else None
    if not isinstance(found, list) or not found:
        raise ValueError(f"the server at {service.url} serves no model")
    return cast(list[dict[str, Any]], found)


def check_release(service: Service) -> str:
    """Its release. Raises ValueError for one whose routes may be others, and for what is no vLLM."""
    try:
        version = str(service.call("/version", get=True)["version"])
    except (NoJson, KeyError, TypeError) as error:
        raise ValueError(f"the server at {service.url} is no vLLM server: it does not tell its version") from error
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    if not FIRST <= numbers < BEYOND:
        low, high = (".".join(map(str, release)) for release in (FIRST, BEYOND))
        raise ValueError(f"the server at {service.url} is vLLM {version}; it must be from {low} and below {high}")
    return version


def concerns_server(name: str, value: str = "") -> bool:
    """Not how the trainer was started, nor the keys of other services; the hub's may be needed for the model."""
    if name in HUB or name.upper().endswith("_PROXY"):  # which may be the way to the hub
        return True
    if WITH_PASSWORD.search(value):
        return False
    return name not in RANKS and not name.startswith(AGENT) and not SECRET.search(name)


def kernels() -> dict[str, str]:
    """Where PyTorch keeps what it has compiled for this user: in the folder of its own a server would do so anew."""
    with suppress(KeyError, OSError):  # a user without a name
        place = Path(tempfile.gettempdir(), f"torchinductor_{getpass.getuser()}")
        place.mkdir(mode=0o700, exist_ok=True)
        if place.lstat().st_uid == os.geteuid():
            return {"TORCHINDUCTOR_CACHE_DIR": str(place)}
    return {}


def serve(arguments: Sequence[str], devices: str | None, timeout: float, log: Path) -> Service:
    """A server of ours on this machine, which is still starting. Raises ValueError where vLLM is not installed."""
    if importlib.util.find_spec("vllm") is None:
        raise ValueError(
            "sampler=vllm_server starts vLLM, which is not installed here; give sampler.url, or install it"
        )
    folder = keeper.private_folder()
    environment = {name: value for name, value in os.environ.items() if concerns_server(name, value)}
    environment |= {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "VLLM_USE_FLASHINFER_SAMPLER": "0"}
    environment |= {"TMPDIR": str(folder), "VLLM_RPC_BASE_PATH": str(folder)}
    environment.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
    if "--enforce-eager" in arguments and not torch.cuda.is_available():  # else each server waits for a C++ compiler
        environment.setdefault("TORCHDYNAMO_DISABLE", "1")
    keep_to_this_machine(environment)
    for name, value in kernels().items():  # last: what names processes looks for the first
        environment.setdefault(name, value)
    if devices is not None:
        environment["CUDA_VISIBLE_DEVICES"] = devices
    # what `vllm serve` runs; that command itself asks for the metadata of a package called vllm, which vllm-cpu is not
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *arguments, "--uds", str(folder / "http")]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-I", keeper.__file__, str(folder), str(os.getpid()), *command],
            env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    return Service(f"{SOCKET}{folder / 'http'}", timeout, process, log)
