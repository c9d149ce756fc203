"""Against vLLM's own allocation, on its own manager of blocks."""

import random

import pytest

from isentropic.sampler.vllm.colocated import available
from isentropic.sampler.vllm.fast_blocks import one_block_each

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not available(), reason="vLLM is not installed")]

SIZE = 16


def manager_of(blocks, caching):
    import torch
    from vllm.v1.core.kv_cache_manager import KVCacheManager
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

    spec = FullAttentionSpec(block_size=SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32)
    config = KVCacheConfig(num_blocks=blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)])
    sizes = {"scheduler_block_size": SIZE, "hash_block_size": SIZE}
    return KVCacheManager(config, max_model_len=1024, enable_caching=caching, **sizes)


def requests_of(count):
    from vllm import SamplingParams
    from vllm.utils.hashing import sha256
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
    from vllm.v1.request import Request

    init_none_hash(sha256)
    hasher, params = get_request_block_hasher(SIZE, sha256), SamplingParams(max_tokens=200)
    return [Request(str(n), [n // 4] * (30 + 2 * (n % 4)), params, None, block_hasher=hasher) for n in range(count)]


def decoded(allocate, caching, blocks=200, ahead=0):
    """Tables and cached blocks after 100 tokens of 16 sequences, some of which leave their blocks to others."""
    manager, draw = manager_of(blocks, caching), random.Random(0)
    going, told = requests_of(16), []
    for one in going:
        found, cached = manager.get_computed_blocks(one)[:2]
        manager.allocate_slots(one, one.num_tokens - cached, cached, found)
        one.num_computed_tokens = one.num_tokens
    for step in range(100):
        if step == 50:
            for one in going[::3]:
                manager.free(one)
            going = [one for place, one in enumerate(going) if place % 3]
        if not ahead:
            for one in going:
                one.append_output_token_ids(draw.randrange(9))
        full = [one for one in going if one.num_computed_tokens % SIZE == 0]
        told.append(allocate(manager, full) if full else {})
        for one in going:
            if ahead and step:  # a token is known after the next step is planned
                one.append_output_token_ids(draw.randrange(9))
            one.num_computed_tokens += 1
    cached = [(block.block_id, block.ref_cnt, block.block_hash) for block in manager.block_pool.blocks]
    return told, [manager.get_block_ids(one.request_id) for one in going], cached


def one_by_one(manager, full):
    return {one.request_id: manager.allocate_slots(one, 1).get_block_ids(allow_none=True) for one in full}


@pytest.mark.parametrize("ahead", [0, 1])
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("blocks", [200, 110])
def test_blocks_given_together_are_those_that_the_engine_gives_one_by_one(caching, blocks, ahead):
    ours, theirs = (decoded(way, caching, blocks, ahead) for way in (one_block_each, one_by_one))
    assert ours == theirs
    assert sum(map(len, ours[0])) > 16 * 4
    assert any(hashed for *_, hashed in ours[2]) == caching


def test_a_sequence_that_has_a_block_to_come_gets_none():
    manager, (one, other) = manager_of(200, True), requests_of(2)
    for request, room in ((one, 10), (other, 0)):
        manager.allocate_slots(request, request.num_tokens, num_lookahead_tokens=room)
        request.append_output_token_ids([1] * (32 - request.num_tokens + 1))
        request.num_computed_tokens = 32
    assert one_block_each(manager, [one, other])["0"] is None
    assert len(manager.get_block_ids("0")[0]) == len(manager.get_block_ids("1")[0])
