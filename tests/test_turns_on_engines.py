"""Episodes of many turns on real engines: on two ranks whose episodes end apart, and over vLLM."""

import json
from pathlib import Path

import pytest
import torch
from fixtures.models import COLOCATED, ENGINE
from fixtures.servers import nothing_left
from transformers import AutoModelForCausalLM, AutoTokenizer

from isentropic.rollout.generate import RolloutGenerator
from isentropic.rollout.prompts import PromptEncoder
from isentropic.rollout.side_by_side import after
from isentropic.sampler.hf import TransformersSampler
from isentropic.sampler.vllm.colocated import VllmSampler, available
from isentropic.sampler.vllm.server import VllmServerSampler
from isentropic.task.calculator import Calculator

SHIPPED = str(Path(__file__).parents[1] / "src" / "isentropic" / "assets" / "countdown")
WARM = 1.5  # so that some answers go wrong early
SCRIPT = Path(__file__).with_name("turns_on_two_ranks.py")

needs_vllm = pytest.mark.skipif(not available(), reason="vLLM is not installed")


def log_probs(policy, batch, temperature):
    """Of each token, given those before it; the first has none."""
    with torch.no_grad():
        logits = policy(batch.tokens[:, :-1], attention_mask=torch.ones_like(batch.tokens[:, :-1])).logits
    found = (logits / temperature).log_softmax(-1).gather(-1, batch.tokens[:, 1:, None]).squeeze(-1)
    return torch.cat([found.new_zeros(len(found), 1), found], 1)


@pytest.mark.slow
def test_ranks_whose_episodes_end_after_one_and_six_turns_do_not_wait_for_each_other(
    forks, script, tiny_model, tmp_path
):
    """On two with vLLM it is tried by sampler/vllm/test_colocated.py."""
    for rank in forks(SCRIPT, *(([tiny_model, tmp_path, rank], {}) for rank in range(2))):
        assert rank.returncode == 0, rank.stderr
    alone = script(SCRIPT)
    sampler = TransformersSampler(tiny_model, "float32", "cpu", 64, 64)
    sampler.start()
    whole = [alone.described(batch) for batch in alone.played(sampler, tiny_model)]
    for rank in range(2):
        said = json.loads((tmp_path / f"rank{rank}.json").read_text())
        assert said["turns"] == [7, 7]  # 1 on the one, 6 on the other
        assert [batch["rows"] for batch in said["batches"]] == [batch["rows"] for batch in whole[rank::2]]


def check_calculator(parts, sampler):
    """The shipped model plays: ids are only appended, masks and turns are the player's, log-probs the policy's."""
    task = Calculator(numbers=4, largest=9, limit=99, held_out=0.1, seed=0)
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED)
    generator = RolloutGenerator(task, sampler, PromptEncoder(tokenizer, False, None, (), {}), 0, parts.turns(turns=3))
    said, converse = {}, sampler.converse

    def noted(requests, decoding, reply):
        said.update((place, [list(one.prompt)]) for place, one in enumerate(requests))

        def note(place, request):
            said[place] += [list(request.prompt)] if request else []
            return request

        def heard(place, completion):
            said[place].append(list(completion.tokens))
            return after(reply(place, completion), lambda request: note(place, request))

        converse(requests, decoding, heard)

    sampler.converse = noted
    try:
        batch, answers = generator.generate(
            task.problems("test")[:16],
            list(range(16)),
            4,
            parts.decoding(temperature=WARM, max_tokens=24, stop=task.stop),
            "test",
        )
    finally:
        del sampler.converse
    lengths = {len(row) for row in said.values()}
    assert {4, 6} <= lengths <= {2, 4, 6}  # some ended early, some went on to the last turn
    for row in said.values():  # prompt, completion, prompt, ...: whoever goes on begins with all that was there
        for before, new, then in zip(row[::2], row[1::2], row[2::2], strict=False):
            assert then[: len(before) + len(new)] == before + new
    rows = zip(answers, batch.tokens, batch.mask, batch.turn, batch.sampler_logp, strict=True)
    for answer, tokens, mask, turn, logp in rows:
        assert tokens[mask].tolist() == list(answer.tokens)
        assert (
            int(turn.max()) + 1
            == len(answer.played.texts)
            == answer.played.calls + (answer.verdict.status == "unparseable")
        )
        assert logp.isnan()[~mask].all() and logp[mask].isfinite().all()
        observed = tokens[: int(mask.nonzero().max())][~mask[: int(mask.nonzero().max())]]
        assert tokenizer.decode(observed[len(observed) - answer.played.observed :]).count(";") == int(turn.max())
    assert {int(row.max()) for row in batch.turn} > {2} and {answer.verdict.status for answer in answers} > {"right"}
    policy = AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32)
    expected = log_probs(policy, batch, WARM)[batch.mask]
    torch.testing.assert_close(batch.sampler_logp[batch.mask], expected, atol=1e-4, rtol=0)


def started(sampler):
    sampler.start()
    policy = AutoModelForCausalLM.from_pretrained(SHIPPED, dtype=torch.float32)
    sampler.update_weights(policy.state_dict().items())
    return sampler


def test_the_calculator_is_played_with_transformers(parts):
    check_calculator(parts, started(TransformersSampler(SHIPPED, "float32", "cpu", 64, 64)))


@pytest.mark.slow
@needs_vllm
def test_the_calculator_is_played_over_vllm_in_process(parts):
    sampler = VllmSampler(SHIPPED, **(COLOCATED | {"max_model_len": 64}))
    try:
        check_calculator(parts, started(sampler))
    finally:
        sampler.stop()


@pytest.mark.slow
@needs_vllm
def test_the_calculator_is_played_over_a_vllm_server(parts, tmp_path):
    asked = {"url": None, "devices": None, "transfer": "file", "timeout": 900.0, "log": str(tmp_path / "server.log")}
    sampler = VllmServerSampler(SHIPPED, **(ENGINE | asked | {"max_model_len": 64}))
    try:
        check_calculator(parts, started(sampler))
        with nothing_left(sampler):
            sampler.stop()
    finally:
        sampler.stop()
