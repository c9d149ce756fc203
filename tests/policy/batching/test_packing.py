import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isentropic.policy.batching.micro_batches import micro_batches
from isentropic.policy.batching.packing import Prompts, pack, pack_shared_prompts, prompts_of, split_by_prompt

LONG, SHORT, EMPTY = [5, 6, 7], [8], [9, 9]
ROWS = [  # prompt, answer
    (LONG, [1, 2, 3]), (SHORT, [4]), (LONG, [2]), (LONG, [3, 1, 2, 4, 4]), (SHORT, [1, 1]), (EMPTY, []), (LONG, [7, 7]),
]  # fmt: skip
WIDTH = 9


def batch():
    tokens, mask = torch.zeros(len(ROWS), WIDTH, dtype=torch.long), torch.zeros(len(ROWS), WIDTH, dtype=torch.bool)
    for row, (prompt, answer) in enumerate(ROWS):
        both = prompt + answer
        tokens[row, : len(both)] = torch.tensor(both)
        mask[row, len(prompt) : len(both)] = True
    return tokens, mask


def test_a_line_names_the_place_that_predicts_each_chosen_token():
    mask = torch.tensor([[0, 0, 1, 1, 0], [0, 1, 0, 1, 1]], dtype=torch.bool)
    tokens = torch.arange(10).view(2, 5)
    packed = pack(mask, [4, 5])
    assert tokens[packed.row, packed.column].tolist() == [0, 1, 2, 5, 6, 7, 8]
    assert packed.cu_seqlens.tolist() == [0, 3, 7] and packed.max_seqlen == 4
    read = tokens[packed.row, packed.column]
    assert tokens[packed.targets].tolist() == [2, 3, 6, 8, 9]
    assert (read[packed.predictors] + 1).tolist() == tokens[packed.targets].tolist()


def test_prompts_are_known_by_their_tokens_up_to_the_first_chosen_one():
    tokens, mask = batch()
    found = prompts_of(tokens, mask)
    assert found.length == [3, 1, 3, 3, 1, 1, 3], "of a row without chosen tokens the first alone"
    numbers = dict(zip(range(len(ROWS)), found.number, strict=True))
    assert numbers[0] == numbers[2] == numbers[3] == numbers[6] and numbers[1] == numbers[4]
    assert len({numbers[0], numbers[1], numbers[5]}) == 3
    tokens[2, 1] = 4
    assert prompts_of(tokens, mask).number[2] not in prompts_of(tokens, mask).number[:2]
    mask[3, 2] = True  # as long as another, but the answer begins earlier
    assert prompts_of(tokens, mask).number[3] != prompts_of(tokens, mask).number[0]


def test_a_line_begins_with_its_prompts_and_names_the_place_that_predicts_each_chosen_token():
    tokens, mask = batch()
    part = [0, 3, 2, 1, 4]
    prompts = prompts_of(tokens, mask).of(part)
    packed = pack_shared_prompts(mask[part], [6, 8, 4, 2, 3], prompts)
    own = tokens[part]
    assert own[packed.row, packed.column].tolist() == [*LONG, *SHORT, 1, 2, 3, 1, 2, 4, 1]
    assert packed.column.tolist() == [0, 1, 2, 0, 3, 4, 3, 4, 5, 6, 1], "as far into its row as ever"
    assert packed.cu_seqlens.tolist() == [0, 3, 4, 6, 10, 11] and packed.max_seqlen == 4, (
        "answers of one token read nothing"
    )
    shared = packed.shared
    assert shared.prompt_index.tolist() == [0, 1, 2, 0, 1, 2, 3] and shared.cu_prompt_lens.tolist() == [0, 3, 6, 7]
    assert (shared.prompt_tokens, shared.max_prompt_len) == (4, 3)
    assert own[packed.targets].tolist() == [1, 2, 3, 3, 1, 2, 4, 4, 2, 4, 1, 1]
    assert packed.predictors.tolist() == [2, 4, 5, 2, 6, 7, 8, 9, 2, 3, 3, 10]


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), min_size=1, max_size=20),
    st.one_of(st.none(), st.integers(1, 8)),
    st.one_of(st.none(), st.integers(1, 100)),
)
def test_every_row_goes_through_once_beside_those_of_its_prompt(rows, count, tokens):
    prompts = Prompts([number for number, _ in rows], [number + 1 for number, _ in rows])
    widths = [number + 2 + answer for number, answer in rows]
    parts = split_by_prompt(widths, prompts, count, tokens)
    order = [row for part in parts for row in part]
    assert sorted(order) == list(range(len(rows)))
    numbers = [prompts.number[row] for row in order]
    assert numbers == sorted(numbers)
    for part in parts:
        held = sum(widths[row] - 1 - prompts.length[row] for row in part)
        held += sum(number + 1 for number in {prompts.number[row] for row in part})
        assert count is None or len(part) <= count
        assert tokens is None or len(part) == 1 or held <= tokens


def test_lines_are_about_equally_long():
    prompts = Prompts([row // 8 for row in range(64)], [10] * 64)
    parts = split_by_prompt([41] * 64, prompts, None, 290)
    assert [len(part) for part in parts] == [8] * 8, "of 10 + 8 x 30 tokens"
    assert [len(part) for part in split_by_prompt([41] * 64, prompts, None, 330)] == [10] * 6 + [4], "as few as fit"


def learnt(path, share, tokens, count, how=("none", False)):
    """Log-prob, entropy, sensitivity of each token, then gradients, of all micro-batches."""
    from isentropic.policy.model.language_model import LanguageModel, ModelSettings

    ids, mask = batch()
    model = LanguageModel(ModelSettings(path, "float32", 64, True, *how, share))
    found, passed = [torch.zeros(mask.shape) for _ in range(3)], 0
    prompts = prompts_of(ids, mask) if share else None
    with model.mixed_precision():
        for micro in micro_batches(mask, count, tokens, True, prompts):
            values = model(ids[micro.rows], mask[micro.rows], micro.width, 0.7, "gradient", micro.packed)
            pull = torch.arange(1, WIDTH + 1) * (micro.rows[:, None] + 1)
            (pull * values[0] + values[1]).sum().backward()
            for whole, value in zip(found[:2], values[:2], strict=True):
                whole[micro.rows] = value.detach()
            passed += len(micro.packed.row)
    return found + [p.grad for p in model.parameters()], passed


@pytest.mark.parametrize("tokens, count", [(None, None), (12, None), (None, 2), (1, None)])
@pytest.mark.parametrize("checkpointing", ["none", "selective", "full"])
def test_a_prompt_that_goes_through_once_changes_no_number(tiny_model, tokens, count, checkpointing):
    right, all_of_it = learnt(tiny_model, False, None, None)
    found, passed = learnt(tiny_model, True, tokens, count, (checkpointing, False))
    for ours, theirs in zip(found, right, strict=True):
        assert (ours - theirs).norm() <= 1e-5 * theirs.norm()  # as a whole: a small element is a sum of large ones
    assert passed < all_of_it or tokens == 1
    if (tokens, count) == (None, None):
        assert passed == all_of_it - 3 * 3 - 1, "three answers fewer read the long prompt, and one the short"
