import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from isentropic.reward import Answer
from isentropic.rollout.collate import collate
from isentropic.rollout.prompts import PromptEncoder
from isentropic.rollout.reasoning import opens, reasoning_of, tally_of_reasoning, written
from isentropic.sampler import Completion
from isentropic.task import Problem, Verdict

MARKERS = ["<think>", "</think>"]


def tokenizer_of(*added: str, special: bool = False) -> PreTrainedTokenizerFast:
    """One token a character; markers are pieces of text, or tokens of their own."""
    letters = [chr(code) for code in range(32, 127)] + ["\n"]
    bare = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    bare.pre_tokenizer, bare.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
    found = PreTrainedTokenizerFast(tokenizer_object=bare)
    found.add_tokens(list(added), special_tokens=special)
    return found


KINDS = {"text": tokenizer_of(), "tokens": tokenizer_of(*MARKERS), "special": tokenizer_of(*MARKERS, special=True)}


def answered(tokenizer, text: str, prompt: str = "2+2=", group: int = 0) -> Answer:
    tokens = tokenizer.encode(text)
    shown = tokenizer.decode(tokens, skip_special_tokens=True)
    return Answer(Problem(prompt, "4"), shown, tokens, "stop", group, 0, Verdict(0.0, False, "wrong"), None)


def batch(prompts, answers):
    asked = [prompts.encode(answer.problem) for answer in answers]
    written, ids = [Completion(answer.tokens, None, "stop") for answer in answers], [a.group for a in answers]
    return collate(asked, written, [answer.verdict for answer in answers], ids, ids)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_marker_ends_the_reasoning_whatever_tokens_it_is_made_of(kind):
    tokenizer = KINDS[kind]
    inside, after = "<think>so it is 4</think>", "it is 4 </think> indeed"
    tokens = tokenizer.encode(inside + after)
    found = reasoning_of(tokenizer, written(tokenizer, tokens), tokens, False)
    assert found == (len(tokenizer.encode(inside)), len(tokenizer.encode(after)), False)
    assert sum(found[:2]) == len(tokens)


def test_where_the_prompt_opens_the_block_an_answer_without_a_marker_never_closes_it():
    tokenizer = KINDS["tokens"]
    tokens = tokenizer.encode("it is 4")
    assert reasoning_of(tokenizer, "it is 4", tokens, True) == (7, 0, True)
    assert reasoning_of(tokenizer, "it is 4", tokens, False) is None
    closed = tokenizer.encode("4</think>")
    assert reasoning_of(tokenizer, "4</think>", closed, True) == (2, 0, False)
    assert opens(tokenizer, tokenizer.encode("2+2=<think>\n"))
    assert not opens(tokenizer, tokenizer.encode("2+2=<think></think>"))


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_summed_where_they_have_a_block(kind):
    tokenizer = KINDS[kind]
    prompts = PromptEncoder(tokenizer, False, None, (), {})
    opening, closing = (len(tokenizer.encode(marker)) for marker in MARKERS)
    plain = [answered(tokenizer, "4"), answered(tokenizer, "it is 5")]
    assert tally_of_reasoning(prompts, plain, batch(prompts, plain)) == {}
    answers = [
        *plain,
        answered(tokenizer, "ab</think>4", "2+2=<think>", 1),
        answered(tokenizer, "abcde", "2+2=<think>", 1),
        answered(tokenizer, "<think>abc", group=0),
        answered(tokenizer, "", "2+2=<think>", 2),
    ]
    seen = tally_of_reasoning(prompts, answers, batch(prompts, answers))
    inside = 2 + closing + 5 + opening + 3
    assert seen == {"reasoned": 4, "reasoning_tokens": inside, "answer_tokens": 1, "unclosed": 3}
