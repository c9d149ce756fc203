"""Whether log-probs here are those of the model's own forward: two short rows, read by both as soon as it is loaded.

What transformers knows of models changes with each of its versions, and what is wrong is wrong without a word: packed
rows that see each other, windows that are ignored, heads that scale or cap, experts drawn at random in training. So
it is tried, not declared: what packed rows get wrong is read in padded rows, and what those get wrong is refused.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import torch
from lightning.pytorch.utilities import rank_zero_warn
from torch import nn

from isentropic.batch import PerToken
from isentropic.policy.model.joined_qkv import join_qkv, separate
from isentropic.policy.model.packed_attention import NAME, unpackable
from isentropic.policy.model.two_rows import (
    ROUNDING_OF_HEADS,
    Check,
    Settled,
    apart,
    checked,
    tf32,
    use_attention,
    window_of,
)

FAILURES = RuntimeError, TypeError, AttributeError, LookupError, ValueError  # of forwards that cannot be
DRAWS = 2  # readings in train mode, as it may draw only a few tokens otherwise


def settle(model: Settled) -> None:
    """Reads two rows, and has the model read the way that is right. Collective where it is sharded.

    Raises ValueError for a model of which no way is.
    """
    with refused(model), model.mixed_precision(), checked(model) as check:
        padded = settle_head(model, check)
        settle_mode(model, check, padded)
        if model.settings.packing:
            settle_packing(model, check, padded)
        if model.settings.joined_qkv:
            settle_qkv(model, check, padded)


@contextmanager
def refused(model: Settled) -> Generator[None]:
    """Whatever stops a forward of two short rows would stop a run: ValueError, with the model's type and the reason."""
    try:
        yield
    except Unreadable as error:
        why = str(error)
    except FAILURES as error:
        why = f"reading two short rows ends in {brief(error)}"
    else:
        return
    raise ValueError(
        f"policy.model.path={model.settings.path}: log-probs of the model type {model.lm.config.model_type} cannot be "
        f"had, as {why}; take a model of another type, of which docs/models.md has a list"
    )


class Unreadable(Exception):
    """A model that can be read in no way that is right, and why."""


def settle_head(model: Settled, check: Check) -> PerToken:
    """One matrix product where that is all that its own head does, and attention that is right; padded rows by both.

    Raises Unreadable where no way is right.
    """
    model.uses_own_head = True
    own = tried(check)
    model.uses_own_head = False
    plain = tried(check) if isinstance(model.lm.get_output_embeddings(), nn.Linear) else None
    if own is None and plain is None:
        check.read(check.rows.mask, None)  # says what is wrong
    if own is not None:
        limit = max(ROUNDING_OF_HEADS[model.settings.compute_dtype], tf32(own.device))
        between = torch.inf if plain is None else apart(own, plain, check.rows.mask, typical=True)
        model.uses_own_head = not check.rows.agree(between, limit)
    padded = own if model.uses_own_head or plain is None else plain
    assert padded is not None
    if not check.rows.agree(check.off(padded)):
        use_attention(model.lm, "eager")
        padded = check.read(check.rows.mask, None)
    if not check.rows.agree(off := check.off(padded)):
        raise Unreadable(
            "it sees the tokens after the one that it predicts (is_decoder=true in config.json may be what it lacks)"
            if check.sees_ahead()
            else f"in padded rows they are {off:.2g} nats off from its own forward"
        )

    return padded


def tried(check: Check) -> PerToken | None:
    """Padded rows, where the head that is set takes the hidden states."""
    try:
        return check.read(check.rows.mask, None)
    except FAILURES:
        return None


def settle_mode(model: Settled, check: Check, padded: PerToken) -> None:
    """Keeps the model in eval mode, with a warning, if its log-probs in train mode are drawn at random."""
    model.lm.train()
    found = [check.read(check.rows.mask, None) for _ in range(DRAWS)]
    model.lm.eval()
    off = max(apart(one, padded, check.rows.mask, typical=False) for one in found)
    model.always_eval = not check.rows.agree(off, ROUNDING_OF_HEADS[model.settings.compute_dtype])
    if model.always_eval:
        rank_zero_warn(
            f"{model.settings.path} stays in eval mode while it learns, as in train mode the model type "
            f"{model.lm.config.model_type} draws at random: a token's log-prob is {off:.2g} nats off"
        )


def settle_packing(model: Settled, check: Check, padded: PerToken) -> None:
    """Sets packed and shares_prompts if log-probs of packed rows agree with the padded ones; else says why not."""
    lm, path = model.lm, model.settings.path
    before, window = lm.config._attn_implementation, window_of(lm.config)
    limit = check.rows.rounding if before == "eager" else check.between_kernels(padded)
    reason = unpackable(lm.config, lm) or check.untold
    if not reason:
        use_attention(lm, NAME)
        reason = wrong(check, check.packed, limit, f"packed rows of the model type {lm.config.model_type}")
        if reason:
            use_attention(lm, before)
    if reason:
        rank_zero_warn(f"{path} reads padded rows in spite of policy.model.packing=true, as {reason}")
        return
    model.packed = True
    if model.settings.share_prompts:
        seen = None if window is None else f"layers see {window} tokens at most"
        why = seen or wrong(check, check.shared, limit, "answers that share one")
        if why:
            rank_zero_warn(f"{path} reads each answer's prompt in spite of policy.model.share_prompts=true, as {why}")
        model.shares_prompts = not why


def settle_qkv(model: Settled, check: Check, padded: PerToken) -> None:
    """Joins queries, keys and values where padded rows are then what they were; else says why not."""
    changed = join_qkv(model.lm.base_model.layers)  # pyright: ignore[reportArgumentType]
    after = tried(check) if changed else None
    off = torch.inf if after is None else apart(after, padded, check.rows.mask, typical=check.rows.typical)
    if check.rows.agree(off, check.between_kernels(padded)):
        return
    separate(changed)
    why = f"log-probs would be {off:.2g} nats off" if changed else "no layer has plain matrices of the known names"
    rank_zero_warn(
        f"{model.settings.path} keeps queries, keys and values apart in spite of policy.model.joined_qkv=true, as {why}"
    )


def wrong(check: Check, reading: Callable[[], float], limit: float, what: str) -> str | None:
    """What is wrong with a reading, in words."""
    error, off = "", torch.inf
    try:
        off = reading()
    except FAILURES as failure:
        error = brief(failure)
    if check.rows.agree(off, limit):
        return None
    return f"{what} end in {error}" if error else f"{what} are {off:.2g} nats off from its own forward"


def brief(error: Exception) -> str:
    """An error's class and first line."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
