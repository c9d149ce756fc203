"""A verifier model's word: A, B or C, at temperature 0, from a folder through our sampler or from a vLLM server."""

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

from isentropic.evaluation.grader import Grade, Grader, Item
from isentropic.sampler import Decoding, Sampler
from isentropic.sampler.vllm.http import Service, first_choice, models
from isentropic.task.answers import last_box

WORDS = {"CORRECT": "A", "INCORRECT": "B", "INVALID": "C"}
STATUS = {"A": "right", "B": "wrong", "C": "invalid"}
FIELDS = ("{question}", "{gold_answer}", "{llm_response}")
BOX = re.compile(r"boxed\{([A-C])\}")
LETTER = re.compile(r"\(([A-C])\)|\b([A-C])\b")


class ModelGrader(Grader):
    """Is asked with the question, which some scripts leave out, and the end of the answer.

    With `only_wrong` its score is an upper reading. Raises ValueError for a model, a prompt or a share that cannot be,
    and RuntimeError where a server is lost.
    """

    def __init__(
        self, name: str | None, model: str, only_wrong: bool, doubt: float, seed: int, tail: int, max_tokens: int,
        requests: int, timeout: float, sampler: Sampler, prompt: str,
    ) -> None:  # fmt: skip
        """`sampler` is the engine of a folder, and does not start for a URL. `prompt` has all `FIELDS`."""
        if missing := [field for field in FIELDS if field not in prompt]:
            raise ValueError(f"the prompt of a model that grades lacks {', '.join(missing)}")
        if not 0 <= doubt <= 1 or tail < 1 or max_tokens < 1 or requests < 1:
            raise ValueError(
                f"doubt={doubt} must be from 0 to 1, and tail={tail}, max_tokens={max_tokens} and requests={requests} "
                "at least 1"
            )
        self.remote = model.startswith(("http://", "https://"))
        if not self.remote and not (Path(model) / "config.json").is_file():
            raise ValueError(f"{model} is no model that can grade: neither a folder with a config.json nor a URL")
        self.name = name or f"model:{model.rstrip('/').rpartition('/')[2]}"
        self.model, self.only_wrong, self.doubt, self.seed = model, only_wrong, doubt, seed
        self.tail, self.max_tokens, self.requests, self.timeout = tail, max_tokens, requests, timeout
        self.sampler, self.prompt = sampler, prompt

    def grade(self, items: Sequence[Item]) -> list[Grade]:
        said = self.ask_server(items) if self.remote else self.ask_folder(items)
        return [grade_of(text) for text in said]

    def request(self, item: Item, tail: int) -> str:
        """The text it is asked with. What stands in an answer fills no field."""
        fields = {"{question}": item.question, "{gold_answer}": item.gold, "{llm_response}": item.text[-tail:]}
        return re.sub("|".join(map(re.escape, FIELDS)), lambda found: fields[found[0]], self.prompt)

    def ask_folder(self, items: Sequence[Item]) -> list[str | None]:
        """What the model says of each item, by our sampler; None where the prompt does not fit into its context."""
        tokenizer, sampler = self.engine
        room = sampler.max_model_len - self.max_tokens
        prompts = [self.encoded(tokenizer, item, room) for item in items]
        fitting = [prompt for prompt in prompts if prompt is not None]
        # the likeliest token alone, which is temperature 0
        decoding = Decoding(temperature=1.0, top_p=1.0, top_k=1, min_p=0.0, max_tokens=self.max_tokens, stop=None)
        drawn = iter(sampler.sample(fitting, 1, range(len(fitting)), decoding) if fitting else [])
        return [
            None if prompt is None else tokenizer.decode(next(drawn)[0].tokens, skip_special_tokens=True)
            for prompt in prompts
        ]

    def encoded(self, tokenizer: Any, item: Item, room: int) -> list[int] | None:
        """With less of the answer where it does not fit; None where even the question does not."""
        tail = self.tail
        while tail:
            text = self.request(item, tail)
            if tokenizer.chat_template:
                chat = [{"role": "user", "content": text}]
                text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
            tokens = tokenizer.encode(text, add_special_tokens=not tokenizer.chat_template)
            if len(tokens) <= room:
                return tokens
            tail //= 2
        return None

    def ask_server(self, items: Sequence[Item]) -> list[str | None]:
        """What the served model says of each item, `requests` at a time; None where it refuses one."""
        served = str(models(self.service)[0]["id"])
        with ThreadPoolExecutor(self.requests) as askers:
            return list(askers.map(lambda item: self.ask_one(served, item), items))

    def ask_one(self, served: str, item: Item) -> str | None:
        """None where the server takes the request for too long, even with less of the answer."""
        tail = self.tail
        while True:
            message = {"role": "user", "content": self.request(item, tail)}
            body = {
                "model": served,
                "messages": [message],
                "temperature": 0.0,
                "max_tokens": self.max_tokens,
                "seed": 0,
            }
            try:
                said = first_choice(self.service.call("/v1/chat/completions", body)).get("message") or {}
                return str(said.get("content") or "")
            except RuntimeError as error:
                if "with 400" not in str(error):
                    raise
                if tail == 1:
                    return None
                tail = max(1, tail // 8)

    def close(self) -> None:
        if "engine" in self.__dict__:
            self.engine[1].stop()
            del self.engine

    @cached_property
    def service(self) -> Service:
        """The server at its URL, once it answers. Raises SamplerError if it does not within `timeout` seconds."""
        service = Service(self.model, self.timeout, None, None)
        service.await_health()
        return service

    @cached_property
    def engine(self) -> tuple[Any, Any]:
        """Tokenizer and started sampler of the model's folder."""
        from transformers import AutoTokenizer

        self.sampler.start()
        return AutoTokenizer.from_pretrained(self.model), self.sampler


def grade_of(said: str | None) -> Grade:
    """From the letter that a verifier ends with; unparseable without one."""
    letter = None if said is None else letter_of(said)
    status = "unparseable" if letter is None else STATUS[letter]
    return Grade(status == "right", status, None)


def letter_of(said: str) -> str | None:
    """A, B or C, as in CompassVerifier's example, but that its three words are read as what they say."""
    said = said.strip()
    if box := BOX.findall(said):
        return box[-1]
    said = said.rpartition("Final Judgment:")[2].strip()
    word = re.match(r"[A-Za-z]+", said.lstrip("*([\"'` "))
    if word and (word[0] in STATUS or word[0].upper() in WORDS):
        return WORDS.get(word[0].upper(), word[0])
    letters = LETTER.findall(last_box(said) or said)
    return "".join(letters[-1]) or None if letters else None
