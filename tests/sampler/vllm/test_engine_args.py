"""What vLLM is told of CUDA graphs; no engine is started."""

from dataclasses import replace

import pytest
from fixtures.models import COLOCATED, ENGINE

from isentropic.sampler.vllm import engine_args
from isentropic.sampler.vllm.colocated import VllmSampler
from isentropic.sampler.vllm.engine_args import capture_sizes, server_arguments
from isentropic.sampler.vllm.server import VllmServerSampler

MANY = {"enforce_eager": False, "max_num_seqs": 1000, "cudagraph_sequences": 1024}
SERVER = {"url": None, "devices": None, "transfer": "file", "timeout": 9.0, "log": "server.log"}


def sampler(**changes):
    return VllmSampler("model", **(COLOCATED | MANY | changes))


def test_graphs_reach_as_far_as_the_engine_runs_sequences():
    sizes = capture_sizes(sampler(), 80.0)
    assert sizes == sorted(set(sizes)) and sizes[-1] == 1000
    assert sizes[:4] == [1, 2, 4, 8] and sizes[sizes.index(512) :] == [512, 576, 640, 704, 768, 832, 896, 960, 1000]
    assert capture_sizes(sampler(max_num_seqs=2048), 80.0)[-1] == 1024


@pytest.mark.parametrize(
    ("changes", "memory"),
    [
        ({"cudagraph_sequences": None}, 80.0),
        ({"max_num_seqs": 512}, 80.0),
        ({"enforce_eager": True}, 80.0),
        ({}, 24.0),
    ],
)
def test_they_are_left_to_vllm_where_more_are_not_asked_for_or_have_no_room(changes, memory):
    assert capture_sizes(sampler(**changes), memory) is None


def test_a_server_is_told_the_same(monkeypatch):
    monkeypatch.setattr(engine_args, "card_memory", lambda: 80.0)
    asked = VllmServerSampler("model", **(ENGINE | SERVER | MANY))
    arguments = server_arguments(asked)
    first = arguments.index("--cudagraph-capture-sizes") + 1
    sizes = list(map(str, capture_sizes(sampler(), 80.0)))
    assert arguments[first : first + len(sizes)] == sizes
    assert "--cudagraph-capture-sizes" not in server_arguments(replace(asked, cudagraph_sequences=None))


def test_fewer_than_vllm_s_own_are_refused():
    with pytest.raises(ValueError, match=r"sampler\.cudagraph_sequences=256 is not above 512"):
        sampler(cudagraph_sequences=256)
