"""Every preset builds its parts, on a tiny model and made-up problems in place of those of the hub."""

import json
import shutil
from pathlib import Path

import pytest

from isentropic.config.build import build
from isentropic.config.compose import compose, loader_of

CONFIGS = Path(__file__).parents[1] / "configs"
PRESETS = sorted(p.stem for p in (CONFIGS / "experiment").glob("*.yaml") if "(arXiv:" in p.read_text())
SETS = "train.dapo_math_17k", "test.aime24", "test.aime25", "test.amc23"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"


@pytest.fixture(scope="module")
def offline(tiny_model, tmp_path_factory) -> list[str]:
    """Overrides that replace the hub: a tiny model that reads long texts and has a chat template, and sums."""
    model, data = tmp_path_factory.mktemp("long") / "model", tmp_path_factory.mktemp("data")
    shutil.copytree(tiny_model, model)
    for name, change in (
        ("config", {"max_position_embeddings": 131_072}),
        ("tokenizer_config", {"chat_template": TEMPLATE}),
    ):
        file = model / f"{name}.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
    for start, name in enumerate(SETS):
        sums = [(f"{start}+{i}=", str(start + i)) for i in range(64)]
        rows = [{"prompt": q, "problem": q, "question": q, "answer": a, "solution": a} for q, a in sums]
        (data / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    paths = [f"task.{name}.path={data / name}.jsonl" for name in SETS]
    return [f"policy.model.path={model}", "trainer.accelerator=cpu", *paths, f"paths.output={data}"]


def composed(preset: str, *overrides: str):
    return compose(loader_of(CONFIGS), "train", [f"experiment={preset}", *overrides])


@pytest.mark.parametrize(
    "preset", [pytest.param(name, marks=pytest.mark.slow if place % 3 else ()) for place, name in enumerate(PRESETS)]
)
def test_a_preset_builds_its_parts(preset, offline):
    from isentropic.train import assemble

    cfg = composed(preset, *offline)
    trainer, policy, data = assemble(cfg, build(cfg, "algorithm"), build(cfg, "task"), build(cfg, "sampler"))
    assert trainer.world_size == cfg.trainer.devices * cfg.trainer.num_nodes
    assert policy.updates * cfg.policy.optimization.mini_batch == data.batch_size
    assert len(data.problems_of("test")) == 3 * 64


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_says_whose_numbers_it_has(preset):
    header = (CONFIGS / f"experiment/{preset}.yaml").read_text().partition("defaults:")[0]
    inherits = any(name in header for name in PRESETS if name != preset)
    assert inherits or ("# From " in header and "# Ours" in header)


def test_presets_keep_what_the_papers_print():
    stare = composed("stare_qwen2_5_14b")
    assert stare.algorithm.credit.stare.boost == 1.05 and stare.rollout.batch_size == 512
    other = composed("stare_qwen2_5_32b", "algorithm=stare_c2")
    assert (other.algorithm.credit.stare.boost, other.algorithm.credit.stare.damp) == (1.05, 0.95)
    assert composed("stare_qwen2_5_math_7b", "algorithm=dapo").algorithm.credit == {}
    dapo = composed("dapo_qwen2_5_32b")
    assert list(dapo.rollout.curation) == ["outcome", "informative", "overlong"]
    assert (dapo.rollout.curation.overlong.buffer, dapo.rollout.batch_size // dapo.rollout.group_size) == (4096, 512)
    assert composed("kl_cov_qwen2_5_32b").algorithm.credit.kl_cov.share == 0.0002
    assert composed("kl_cov_qwen2_5_7b").algorithm.credit.kl_cov.share == 0.002
    stapo = composed("stapo_qwen3_14b_base")
    assert stapo.rollout.steps * stapo.rollout.batch_size / stapo.policy.optimization.mini_batch == 3000
