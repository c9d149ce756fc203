"""How a problem is put to the policy: its chat or plain text, and the token ids of that."""

import difflib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, TemplateError, TemplateSyntaxError
from jinja2.meta import find_undeclared_variables
from transformers import PreTrainedTokenizerBase

from isentropic.task import Message, Problem
from isentropic.task.dataset_files import place_of, record_in

SAID = "isentropic"  # an assistant's message, to see what a template writes after it


@dataclass(frozen=True)
class PromptEncoder:
    """Raises ValueError where a chat has no template, or what is for a chat is set without one."""

    tokenizer: PreTrainedTokenizerBase
    chat: bool  # wrap each prompt as a user's message
    system: str | None  # message before each problem that brings none of its own
    examples: Sequence[Message]  # messages between that and the problem
    template_arguments: Mapping[str, Any]  # as enable_thinking: false

    def __post_init__(self) -> None:
        if not self.chat:
            for name in ("system", "examples", "template_arguments"):
                if getattr(self, name):
                    raise ValueError(
                        f"rollout.{name} is for a chat, and rollout.chat=false is plain text; set chat=true"
                    )
            return
        if not self.tokenizer.chat_template:
            raise ValueError(
                f"chat=true, but the tokenizer of {self.tokenizer.name_or_path} has no chat template; take chat=false, "
                "or give one by rollout.chat_template, in an evaluation training.chat_template"
            )
        self.check_arguments()

    def messages(self, problem: Problem) -> list[Message] | None:
        """The whole chat; None for a plain prompt."""
        if not self.chat:
            return None
        own = any(message["role"] == "system" for message in problem.before)
        system = [{"role": "system", "content": self.system}] if self.system and not own else []
        start = [message for message in problem.before if message["role"] == "system"]
        rest = [message for message in problem.before if message["role"] != "system"]
        return [*system, *start, *self.examples, *rest, {"role": "user", "content": problem.prompt}]

    def encode(self, problem: Problem) -> list[int]:
        """Ids of a prompt, by the chat template if there are messages; without an end token appended to plain text."""
        messages = self.messages(problem)
        if messages is not None:
            return list[int](self.rendered(messages, return_dict=False))
        ids = self.tokenizer.encode(problem.prompt)
        return ids[: -self.appended] if self.appended else ids

    @cached_property
    def appended(self) -> int:
        """How many special tokens the tokenizer puts after a text, such as its end token: a prompt goes on."""
        whole, bare = self.tokenizer.encode("1"), self.tokenizer.encode("1", add_special_tokens=False)
        places = [i for i in range(len(whole) - len(bare) + 1) if whole[i : i + len(bare)] == bare]
        return len(whole) - places[0] - len(bare) if bare and places else 0

    @cached_property
    def answer_end(self) -> str | None:
        """The special token that the chat template writes after what the assistant says; None where there is none.

        Of base models it is another than the model's own end token: `<|im_end|>`, and `<|endoftext|>`.
        """
        if not self.chat:
            return None
        chat: list[Message] = [{"role": "user", "content": "?"}, {"role": "assistant", "content": SAID}]
        try:
            text = self.tokenizer.apply_chat_template(chat, tokenize=False, **self.template_arguments)
        except (TemplateError, TypeError, ValueError, KeyError):  # one that knows no assistant
            return None
        _, found, after = str(text).rpartition(SAID)
        special = [one.content for one in self.tokenizer.added_tokens_decoder.values() if one.special and one.content]
        first = [token for token in special if found and after.lstrip().startswith(token)]
        return max(first, key=len, default=None)

    def shown(self, problem: Problem) -> str:
        """As the policy reads it, special tokens included."""
        text = self.tokenizer.decode(self.encode(problem), skip_special_tokens=False)
        assert isinstance(text, str)
        return text

    def check(self, problem: Problem) -> None:
        """Raises ValueError where a part of the prompt is lost on the way to the policy."""
        if not self.chat and problem.before:
            raise ValueError(
                f"the data has chats with messages before the question ({problem.before[0]['role']}), which plain text "
                "would lose; take rollout.chat=true"
            )
        messages = self.messages(problem)
        if messages is not None:
            self.check_template(messages)
        ids, end = self.encode(problem), self.tokenizer.eos_token_id
        if not ids:
            raise ValueError(f"the prompt {problem.prompt!r:.60} has no token")
        if ids[-1] == end:
            raise ValueError(
                f"the prompt ends with the end token {self.tokenizer.eos_token}, after which nothing is written; "
                + ("the chat template needs a generation prompt" if self.chat else "take it out of task.template")
            )

    def check_template(self, messages: Sequence[Message]) -> None:
        """Raises ValueError where the template refuses these messages, or does not show one of them."""
        text = self.rendered(messages, tokenize=False)
        for message in messages:
            if squeezed(message["content"]) not in squeezed(str(text)):
                what = "the question" if message is messages[-1] else f"a message of {message['role']}"
                raise ValueError(
                    f"the chat template loses {what} ({message['content']!r:.60}); give rollout.chat_template one that "
                    "keeps it" + ("" if message is messages[-1] else ", or leave the message out")
                )

    def rendered(self, messages: Sequence[Message], **how: bool) -> Any:
        """What the chat template makes of messages. Raises ValueError where it cannot be read, or refuses them."""
        try:
            return self.tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, **how, **self.template_arguments
            )
        except TemplateSyntaxError as error:
            raise ValueError(f"the chat template is no Jinja (line {error.lineno}: {error.message})") from error
        except (TemplateError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            roles = ", ".join(dict.fromkeys(message["role"] for message in messages))
            raise ValueError(
                f"the chat template refuses messages of {roles} ({' '.join(str(error).split())}); leave out "
                "what it does not know, such as rollout.system, or give rollout.chat_template"
            ) from error

    def check_arguments(self) -> None:
        """Raises ValueError for an argument that the template does not read, which would take no notice of it."""
        template = self.tokenizer.chat_template
        if not self.template_arguments or not isinstance(template, str):
            return
        known = find_undeclared_variables(environment().parse(template)) - {"messages", "add_generation_prompt"}
        for name in self.template_arguments:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"it reads {', '.join(sorted(known)) or 'nothing'}"
                raise ValueError(f"rollout.template_arguments.{name} is not read by the chat template; {hint}")

    def check_written(self, key: str, texts: Sequence[str]) -> None:
        """Raises ValueError where a text that an answer must have cannot be in it when it is judged."""
        check_written(self.tokenizer, key, texts)


def check_written(tokenizer: PreTrainedTokenizerBase, key: str, texts: Sequence[str]) -> None:
    """Raises ValueError for a text that is taken out of answers as a special token, or that comes out otherwise."""
    special = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    for text in texts:
        for token in sorted(special):
            if token and token in text:
                raise ValueError(
                    f"{key} looks for {text!r} in answers, and decoding takes out {token}, a special token of the "
                    "tokenizer; take another text"
                )
        ids = tokenizer.encode(text, add_special_tokens=False)
        found = str(tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))
        if text not in found and folded(text) == folded(found):
            raise ValueError(
                f"{key} looks for {text!r} in answers, and the tokenizer makes {found!r} of that; take this or another"
            )


def folded(text: str) -> str:
    """Letters whatever their case, accents, width and spaces."""
    marked = unicodedata.normalize("NFKD", text)
    return "".join(sign for sign in marked if not unicodedata.combining(sign) and not sign.isspace()).casefold()


def environment() -> Environment:
    """As transformers reads templates, with its marks for what the assistant says."""
    from transformers.utils.chat_template_utils import _cached_compile_jinja_template  # pyright: ignore

    return _cached_compile_jinja_template("{{ messages }}").environment


def squeezed(text: str) -> str:
    """Templates trim and break lines as they like."""
    return "".join(text.split())


def template_of(given: str | None) -> str | None:
    """The text of a template, from itself or its file. Raises ValueError for a file that is not there."""
    if given is None or "{" in given:
        return given
    file = place_of(f"rollout.chat_template={given}", given)
    if not file.is_file():
        raise ValueError(f"rollout.chat_template={given} is neither a file nor a template, which has {{{{ }}}} in it")
    return text_in(file, "rollout.chat_template")


def text_in(file: Path, key: str) -> str:
    """Raises ValueError for a file that is no text."""
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{key}={file} is not text in UTF-8: {error}") from error


def examples_of(given: str | list[dict[str, str]] | None) -> list[Message]:
    """Messages, from themselves or a .json or .jsonl file. Raises ValueError for what is no chat."""
    key, messages = "rollout.examples", given or []
    if isinstance(messages, str):
        file = place_of(f"{key}={given}", messages)
        if not file.is_file():
            raise ValueError(f"{key}={given} is not a file; give a .json or .jsonl file of messages, or a list of them")
        key, text = f"{key}={given}", text_in(file, key)
        try:
            lines = file.suffix == ".jsonl"
            messages = [record_in(line) for line in text.splitlines() if line.strip()] if lines else record_in(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{key} is not JSON: {error}") from error
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise ValueError(f"{key} is {messages!r:.60}; it must be a list of messages, each with a role and a content")
    for number, message in enumerate(cast(list[Any], messages), 1):
        if not isinstance(message, Mapping) or not all(isinstance(message.get(k), str) for k in ("role", "content")):
            raise ValueError(f"message {number} of {key} is {message!r:.60}; it must have a role and a content")
    return [{"role": message["role"], "content": message["content"]} for message in messages]
