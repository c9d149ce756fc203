"""A checkpoint as a folder that others read: the same model, whatever it was saved as."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from isentropic.commands import export
from isentropic.sampler.vllm.colocated import available

TOKENS = torch.randint(2, 24, (1, 12), generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def checkpoint(tiny_model, tiny_model_untied, tmp_path_factory):
    """A run's folder whose policy is not its start, and that policy."""
    from isentropic.policy.model.language_model import LanguageModel, ModelSettings
    from isentropic.policy.model.lora import LoraSettings

    made = {}

    def make(tied: bool, adapted: bool):
        if (tied, adapted) in made:
            return made[tied, adapted]
        path = tiny_model if tied else tiny_model_untied
        adapter = LoraSettings(3, 12.0, ["v_proj", "o_proj", "up_proj"], "float32", 0) if adapted else None
        module = torch.nn.Module()
        module.policy = LanguageModel(ModelSettings(path, "float32", 16, False, "none", False), None, adapter)
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for value in module.policy.parameters():
                if value.requires_grad:
                    value += 0.1 * torch.randn(value.shape, generator=generator)
        run = tmp_path_factory.mktemp("run")
        (run / "checkpoints").mkdir()
        ours = {"model": module.policy.shape(), "path": path, "adapter": adapter and adapter.state(path)}
        content = {"state_dict": module.state_dict(), "isentropic": ours | {"rollouts": 1}}
        torch.save(content, run / "checkpoints" / "last.ckpt")
        made[tied, adapted] = SimpleNamespace(run=run, policy=module.policy, path=path, content=content)
        return made[tied, adapted]

    return make


@torch.no_grad()
def logits(model):
    return model(TOKENS).logits


CASES = pytest.mark.parametrize("tied, adapted", [(True, False), (False, False), (True, True), (False, True)])


@CASES
def test_transformers_reads_the_same_logits_from_the_folder(checkpoint, tied, adapted, tmp_path):
    made, out = checkpoint(tied, adapted), tmp_path / "out"
    export.main([f"ckpt_path={made.run}", f"out={out}", "dtype=float32"])
    loaded = AutoModelForCausalLM.from_pretrained(out)
    assert loaded.dtype == torch.float32
    torch.testing.assert_close(logits(loaded), logits(made.policy.lm), rtol=1e-5, atol=1e-5)
    assert (logits(loaded) - logits(AutoModelForCausalLM.from_pretrained(made.path))).abs().max() > 0.1
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) == tied
    assert AutoTokenizer.from_pretrained(out).get_vocab() == AutoTokenizer.from_pretrained(made.path).get_vocab()
    assert {path.name for path in out.parent.iterdir()} == {"out"}


def test_bf16_is_the_policy_rounded_once(checkpoint, tmp_path):
    made = checkpoint(True, True)
    export.main(
        [f"ckpt_path={made.run}/checkpoints/last.ckpt", f"out={tmp_path}"]
    )  # empty, as folders made for this are
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert loaded.dtype == torch.bfloat16 and json.loads((tmp_path / "config.json").read_text())["dtype"] == "bfloat16"
    sent = dict(made.policy.weights("bfloat16"))
    assert all(torch.equal(value, sent[name]) for name, value in loaded.state_dict().items())


def test_a_sharded_checkpoint_gives_the_same_folder(checkpoint, tmp_path):
    from torch.distributed.checkpoint import save

    made, folder = checkpoint(True, False), tmp_path / "last.ckpt"
    save({"state_dict": made.content["state_dict"]}, checkpoint_id=folder, no_dist=True)
    torch.save({"isentropic": made.content["isentropic"]}, folder / "meta.pt")
    for name, source in (("one", made.run), ("sharded", folder)):
        export.main([f"ckpt_path={source}", f"out={tmp_path / name}"])
    files = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("one", "sharded")]
    assert files[0] == files[1]
    assert all(
        (tmp_path / "one" / name).read_bytes() == (tmp_path / "sharded" / name).read_bytes() for name in files[0]
    )


def test_adapters_go_out_as_peft_reads_them(checkpoint, tmp_path):
    from peft import PeftModel

    made, out = checkpoint(False, True), tmp_path / "out"
    export.main([f"ckpt_path={made.run}", f"out={out}", "merge=false"])
    assert not (out / "model.safetensors").exists()
    base = AutoModelForCausalLM.from_pretrained(made.path, dtype=torch.float32)
    before = logits(base)
    adapted = PeftModel.from_pretrained(base, out)
    torch.testing.assert_close(logits(adapted), logits(made.policy.lm), rtol=1e-5, atol=1e-5)
    assert (logits(adapted) - before).abs().max() > 0.1
    assert adapted.peft_config["default"].base_model_name_or_path == made.path


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="vLLM is not installed")
@pytest.mark.parametrize("tied, adapted", [(True, False), (False, True)])
def test_vllm_scores_the_folder_as_the_policy_does(checkpoint, tied, adapted, tmp_path):
    from isentropic.config.compose import compose, loader_of
    from isentropic.config.entry import CONFIGS

    made = checkpoint(tied, adapted)
    export.main([f"ckpt_path={made.run}", f"out={tmp_path}", "dtype=float32"])
    from isentropic.config.build import build

    cfg = compose(
        loader_of(CONFIGS),
        "train",
        [f"sampler.path={tmp_path}", "sampler.kv_cache_gib=0.03", "sampler.max_model_len=64"],
    )
    engine = build(cfg, "sampler")
    engine.start()
    try:
        scores = engine.score(TOKENS[0].tolist())
    finally:
        engine.stop()
    expected = logits(made.policy.lm)[0, :-1].log_softmax(-1).gather(-1, TOKENS[0, 1:, None])[:, 0]
    torch.testing.assert_close(torch.tensor(scores), expected, rtol=1e-4, atol=1e-4)


def test_what_cannot_be_exported_is_refused_in_one_sentence(checkpoint, tmp_path, capsys):
    made = checkpoint(True, False)
    foreign, full, out = tmp_path / "foreign.ckpt", tmp_path / "full", tmp_path / "out"
    torch.save({"state_dict": {}}, foreign)
    full.mkdir()
    (full / "note").write_text("mine")
    (tmp_path / "cut.ckpt").write_bytes((made.run / "checkpoints" / "last.ckpt").read_bytes()[:9000])
    moved = tmp_path / "moved.ckpt"
    torch.save(made.content | {"isentropic": made.content["isentropic"] | {"path": str(tmp_path / "gone")}}, moved)
    for arguments, said in (
        ([f"ckpt_path={tmp_path}/none.ckpt", f"out={out}"], "does not exist; there are"),
        ([f"ckpt_path={foreign}", f"out={out}"], "was not written by isentropic.train"),
        ([f"ckpt_path={tmp_path}/cut.ckpt", f"out={out}"], "may be cut off"),
        ([f"ckpt_path={full}", f"out={out}"], "meta.pt is missing"),
        ([f"ckpt_path={made.run}", f"out={full}"], "is not an empty folder"),
        ([f"ckpt_path={made.run}", f"out={out}", "dtype=float16"], "dtype=float16 is not one of"),
        ([f"ckpt_path={made.run}", f"out={out}", "merge=no"], "merge=no is not true or false"),
        ([f"checkpoint={made.run}", f"out={out}"], "checkpoint does not exist: export has the keys"),
        ([str(made.run), str(out)], "cannot be read; usage: "),
        ([f"out={out}"], "usage: "),
        ([f"ckpt_path={moved}", f"out={out}"], "which is not there"),
    ):
        with pytest.raises(SystemExit) as stopped:
            export.main(arguments)
        told = capsys.readouterr().err
        assert stopped.value.code == 2 and said in told and told.count("\n") == 1
    assert not out.exists() and [path.name for path in full.iterdir()] == ["note"]


def test_the_model_may_have_moved_but_not_changed(checkpoint, tmp_path, capsys):
    made, copy, out = checkpoint(True, True), tmp_path / "copy", tmp_path / "out"
    shutil.copytree(made.path, copy)
    export.main([f"ckpt_path={made.run}", f"out={out}", f"model={copy}", "dtype=float32"])
    torch.testing.assert_close(
        logits(AutoModelForCausalLM.from_pretrained(out)), logits(made.policy.lm), rtol=1e-5, atol=1e-5
    )
    other = AutoModelForCausalLM.from_pretrained(made.path)
    with torch.no_grad():
        other.model.norm.weight += 1
    other.save_pretrained(Path(copy))
    with pytest.raises(SystemExit):
        export.main([f"ckpt_path={made.run}", f"out={tmp_path}/again", f"model={copy}"])
    assert "other weights than those beside which the adapters learnt" in capsys.readouterr().err
