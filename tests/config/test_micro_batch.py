import pytest
import torch

from isentropic.config import micro_batch
from isentropic.config.build import build
from isentropic.config.compose import compose, loader_of
from isentropic.config.entry import CONFIGS

OPEN = ["policy.optimization.micro_batch=null", "policy.optimization.max_tokens_per_micro_batch=null"]


def composed(*overrides):
    return compose(loader_of(CONFIGS), "train", [*overrides, "paths.output=."]).copy()


def test_what_is_set_stays_and_is_not_spoken_of(capsys):
    cfg = composed("experiment=quickstart")
    before = cfg.policy.optimization.copy()
    micro_batch.choose_micro_batch(cfg, build(cfg, "algorithm"))
    assert cfg.policy.optimization == before and capsys.readouterr().out == ""


def test_without_a_gpu_the_usual_number_is_taken(capsys):
    cfg = composed("experiment=quickstart", "trainer=cpu", *OPEN)
    micro_batch.choose_micro_batch(cfg, build(cfg, "algorithm"))
    assert cfg.policy.optimization.max_tokens_per_micro_batch == 8192
    assert capsys.readouterr().out == (
        "policy.optimization.max_tokens_per_micro_batch=8192: the usual number without a GPU\n"
    )


@pytest.mark.parametrize(("free", "whole", "tokens"), [(139.0, 139.8, 18432), (64.0, 139.8, 8192), (79.0, 79.6, 18432)])
def test_on_a_gpu_its_memory_chooses(free, whole, tokens, monkeypatch, capsys):
    """Of 1.5 B; a GPU is not needed to know how much memory it has."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (int(free * 2**30), int(whole * 2**30)))
    monkeypatch.setattr(micro_batch, "has_gpu", lambda: True)
    cfg = composed(
        "experiment=smollm2_chain_sum", "policy=qwen2_5_1_5b", "trainer=gpu", "rollout.group_size=8",
        "rollout.batch_size=512", *OPEN,
    )  # fmt: skip
    micro_batch.choose_micro_batch(cfg, build(cfg, "algorithm"))
    assert cfg.policy.optimization.max_tokens_per_micro_batch == tokens
    assert f"as the card has {free:.0f} of {whole:.0f} GiB free" in capsys.readouterr().out


def test_of_a_model_that_cannot_be_planned_the_usual_number_is_taken(monkeypatch, tmp_path, capsys):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    monkeypatch.setattr(micro_batch, "has_gpu", lambda: True)
    cfg = composed("experiment=quickstart", "trainer=gpu", f"policy.model.path={tmp_path}", *OPEN)
    micro_batch.choose_micro_batch(cfg, build(cfg, "algorithm"))
    assert cfg.policy.optimization.max_tokens_per_micro_batch == 8192
    assert "plans know nothing of the memory of this model" in capsys.readouterr().out
