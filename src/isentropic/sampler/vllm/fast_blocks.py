"""Blocks of the cache for sequences whose blocks are full, all at one time.

The engine's `allocate_slots` asks of each sequence what may be freed, found, admitted and looked ahead for, of which
there is nothing where it only decodes. Sequences of one length all need their blocks in the same step, and the card
waits for it: 9 ms of a slow core for 512 of them, 4 ms here.
"""

# pyright: basic

from collections.abc import Sequence
from typing import Any


def one_block_each(manager: Any, requests: Sequence[Any]) -> dict[str, tuple[list[int], ...] | None]:
    """As `allocate_slots(request, 1)` of vLLM's KVCacheManager for each of these: ids of new blocks by their names.

    For caches of one group of full attention with as many free blocks. What is full is cached, as there.
    """
    (group,) = manager.coordinator.single_type_managers
    held, size = group.req_to_blocks, group.block_size
    if any(len(held[one.request_id]) * size != one.num_computed_tokens for one in requests):
        found = {one.request_id: manager.allocate_slots(one, 1) for one in requests}
        return {name: blocks.get_block_ids(allow_none=True) for name, blocks in found.items()}
    new = manager.block_pool.get_new_blocks(len(requests))
    for one, block in zip(requests, new, strict=True):
        held[one.request_id].append(block)
        manager.cache_blocks(one, min(one.num_computed_tokens + 1, one.num_tokens))
    return {one.request_id: ([block.block_id],) for one, block in zip(requests, new, strict=True)}
