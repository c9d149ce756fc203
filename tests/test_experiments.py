"""Every preset builds its parts, on a tiny model and made-up problems in place of those of the hub."""

import json
import re
import shutil
from functools import cache
from pathlib import Path

import pytest
from fixtures.templates import QWEN, chat_tokenizer

from isentropic.config.build import build
from isentropic.config.compose import compose, loader_of

CONFIGS = Path(__file__).parents[1] / "configs"
PRESETS = sorted(p.stem for p in (CONFIGS / "experiment").glob("*.yaml") if "(arXiv:" in p.read_text())
SETS = "train.dapo_math_17k", "test.aime24", "test.aime25", "test.amc23"
TOOLS = [name for name in PRESETS if name.startswith(("stare_tool", "simpletir"))]
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
    paths = [f"{name}.path={data / name}.jsonl" for name in SETS]
    chats = chat_tokenizer()  # that of the tiny model has no letters, and observations are compared with a whole chat
    chats.chat_template = QWEN
    chats.save_pretrained(data / "chats")
    return [f"policy.model.path={model}", "trainer.accelerator=cpu", f"paths.output={data}", *paths]


def in_task(preset: str, overrides: list[str]) -> list[str]:
    """With the sets where the preset's task has them: those of an environment stand in the task that it is made of."""
    task = "task.task" if preset in TOOLS else "task"
    folder = next(one for one in overrides if one.startswith("paths.output=")).partition("=")[2]
    chats = [f"rollout.tokenizer={folder}/chats"] if preset in TOOLS else []
    return chats + [f"{task}.{one}" if one.startswith(("train.", "test.")) else one for one in overrides]


@cache
def composed(preset: str, *overrides: str):
    return compose(loader_of(CONFIGS), "train", [f"experiment={preset}", *overrides])


@pytest.mark.parametrize(
    "preset", [pytest.param(name, marks=pytest.mark.slow if place % 3 else ()) for place, name in enumerate(PRESETS)]
)
def test_a_preset_builds_its_parts(preset, offline):
    from isentropic.train import assemble

    cfg = composed(preset, *in_task(preset, offline))
    trainer, policy, data = assemble(cfg, build(cfg, "algorithm"), build(cfg, "task"), build(cfg, "sampler"))
    assert trainer.world_size == cfg.trainer.devices * cfg.trainer.num_nodes
    assert policy.updates * cfg.policy.optimization.mini_batch == data.batch_size
    assert len(data.problems_of("test")) == 3 * 64
    data.check_context(cfg.sampler.max_model_len)
    data.task.close()


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
    assert stapo.rollout.steps == 3000 and stapo.policy.optimization.warmup_steps == 10 * 4  # rollouts, of 4 updates


def test_presets_are_judged_as_the_papers_judge_while_they_train():
    greedy = composed("kl_cov_qwen2_5_32b")
    assert (greedy.rollout.evaluation.count, greedy.rollout.evaluation.decoding.temperature) == (1, 0)
    assert (greedy.evaluation.avg_at_k.k, greedy.trainer.val_check_interval) == (1, 4)
    stapo = composed("stapo_qwen3_14b_base").rollout
    assert (stapo.evaluation.decoding.temperature, stapo.evaluation.decoding.top_p) == (0.7, 0.9)
    assert stapo.decoding.temperature == stapo.decoding.top_p == 1  # of what it learns from


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_s_header_or_the_one_it_names_says_which_protocol_makes_the_paper_s_table(preset):
    there = {path.stem for path in (CONFIGS / "evaluation/protocol").glob("*.yaml")}
    headers, parent = "", preset
    while parent in PRESETS:
        text = (CONFIGS / f"experiment/{parent}.yaml").read_text()
        headers += text.partition("defaults:")[0]
        parent = next(line.removeprefix("  - ") for line in text.splitlines() if line.startswith("  - "))
    named = set(re.findall(r"evaluation/protocol=(\w+)", headers))
    assert named and named <= there


RATES = {
    "kl_cov_qwen2_5_7b": 5e-7,
    "clip_cov_qwen2_5_7b": 5e-7,
    "kl_cov_qwen2_5_32b": 1e-6,
    "clip_cov_qwen2_5_32b": 1e-6,
}


@pytest.mark.parametrize("preset", RATES)
def test_covariance_presets_learn_at_the_rate_of_their_script(preset):
    assert composed(preset).policy.optimization.lr == RATES[preset]


LENGTHS = {
    "stare_qwen2_5_math_7b": (5000, 10),
    "stapo_qwen3_8b_base": (3000, 20),
    "just_rl_r1_distill_qwen_1_5b": (4000, 50),
}


@pytest.mark.parametrize("preset", LENGTHS)
def test_presets_are_as_long_as_their_papers_runs(preset):
    cfg = composed(preset)
    assert (cfg.rollout.steps, cfg.trainer.val_check_interval) == LENGTHS[preset]


def test_stare_asks_as_many_prompts_for_a_rollout_as_its_script():
    for preset in ("stare_qwen2_5_math_7b", "stare_qwen3_8b_base", "stare_qwen2_5_32b"):
        rollout = composed(preset).rollout
        assert rollout.max_tries * rollout.batch_size / rollout.group_size == 10 * 192


STRINGS = [
    preset for preset in PRESETS if preset.startswith(("dapo", "top_entropy", "kl_cov", "clip_cov", "stapo", "just"))
]


@pytest.mark.parametrize("preset", STRINGS)
def test_presets_of_papers_that_compare_texts_do_so(preset):
    task = composed(preset).task
    boxed = preset.startswith(("stapo", "just"))
    assert task.strictness == "dapo" and ("boxed" in task.template) == boxed
    assert ("on its own line" in task.template) != boxed


@pytest.mark.parametrize("preset", [preset for preset in PRESETS if preset.startswith(("gtpo", "grpo_s"))])
def test_presets_on_top_of_dapo_sample_dynamically(preset):
    assert list(composed(preset).rollout.curation) == ["informative"]


def test_large_models_have_their_own_weights_of_every_variant():
    found = {}
    for recipe in ("stare", "stare_c2", "stare_adaptive", "stare_o2", "stare_o3", "stare_o4", "stare_c1"):
        rule = composed("stare_qwen2_5_32b", f"algorithm={recipe}").algorithm.credit.stare
        found[recipe] = tuple(rule[name] for name in ("boost", "bad_rest", "good_rest", "damp"))
    assert found == {
        "stare": (1.05, 1, 1, 1),
        "stare_c2": (1.05, 1, 1, 0.95),
        "stare_adaptive": (1.05, 1, 1, 0.95),
        "stare_o2": (1, 1.05, 1, 1),
        "stare_o3": (1, 1, 0.95, 1),
        "stare_o4": (1, 1, 1, 0.95),
        "stare_c1": (1.05, 1.05, 1, 1),
    }
    control = composed("stare_qwen2_5_32b", "algorithm=stare_adaptive").algorithm.control
    assert (control.boost, control.boost_step, control.boost_most, control.damp_least) == (1.05, 0.01, 1.5, 0.5)


def test_presets_with_tools_have_what_their_sources_print():
    stare = composed("stare_tool_qwen2_5_7b")
    assert (stare.rollout.batch_size, stare.rollout.group_size, stare.rollout.decoding.max_tokens) == (512, 8, 8192)
    assert stare.algorithm.credit.stare.boost == 1.1 and stare.algorithm.control.target == 0.3
    assert stare.rollout.steps == 2000 and list(stare.rollout.curation) == ["informative"]
    simple = composed("simpletir_qwen2_5_7b")
    assert simple.rollout.batch_size / simple.rollout.group_size == 512 and simple.rollout.turns.turns == 5
    assert simple.policy.optimization.mini_batch / simple.rollout.group_size == 128
    assert list(simple.rollout.curation) == ["void_turns", "informative"] and simple.rollout.max_tries == 3
    clipping = simple.algorithm.clipping
    assert (clipping.low, clipping.high, clipping.ceiling) == (0.2, 0.28, 3.0)
    assert (simple.task.shown, simple.task.lines, simple.task.task.strictness) == (512, "last", "math_verify")


@pytest.mark.parametrize("preset", TOOLS)
def test_prompts_of_presets_with_tools_say_how_to_call_them(preset):
    assert "```python" in composed(preset).task.task.template
