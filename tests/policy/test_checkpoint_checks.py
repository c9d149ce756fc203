"""What a checkpoint is checked for before a run goes on from it."""

import pickle
import shutil
from enum import Enum

import pytest
import torch
from torch.distributed.checkpoint import save
from torch.distributed.checkpoint.metadata import _MEM_FORMAT_ENCODING, TensorStorageMetadata
from transformers import AutoConfig, AutoModelForCausalLM

from isentropic.policy.checkpoint_checks import check, read
from isentropic.policy.checkpoint_files import seal
from isentropic.policy.model.identity import fingerprint, shape
from isentropic.policy.model.lora import LoraSettings


@pytest.fixture
def sharded(tiny_model, tmp_path):
    """A checkpoint as each rank writes its part of, by one rank."""
    folder = tmp_path / "last.ckpt"
    state = {"state_dict": {"weight": torch.ones(300, 3)}, "optimizer_0": {"param_groups": [{"lr": 1e-3}]}}
    save(state, checkpoint_id=folder, no_dist=True)
    ours = {"model": shape(AutoConfig.from_pretrained(tiny_model)), "rollouts": 4}
    torch.save({"isentropic": ours}, folder / "meta.pt")
    return folder


def refused(folder, model, said, adapter=None):
    with pytest.raises(ValueError, match=said) as caught:
        check(str(folder), model, adapter)
    assert "\n" not in str(caught.value)


def test_a_whole_folder_is_read_and_one_that_lacks_something_is_not(sharded, tiny_model):
    assert check(str(sharded), tiny_model)["rollouts"] == 4
    (shard,) = sharded.glob("*.distcp")
    content = shard.read_bytes()
    shard.write_bytes(content[:-100])
    refused(sharded, tiny_model, "may be cut off: .*distcp has .* bytes of at least")
    shard.write_bytes(content)
    index = (sharded / ".metadata").read_bytes()
    (sharded / ".metadata").write_bytes(index[:50])
    refused(sharded, tiny_model, "may be cut off")
    (sharded / ".metadata").unlink()
    refused(sharded, tiny_model, ".metadata is missing in the folder")


class OfEarlyPython311(pickle.Pickler):
    def reducer_override(self, obj):
        return (getattr, (type(obj), obj.name)) if isinstance(obj, Enum) else NotImplemented


class Attribute:
    def __init__(self, *of):
        self.of = of

    def __reduce__(self):
        return getattr, self.of


def test_an_index_of_any_python_is_read_and_gives_no_other_attribute(sharded, tiny_model):
    """Python 3.11.2, which is Debian 12's, pickles what an enumeration holds as an attribute of its class."""
    index = pickle.loads((sharded / ".metadata").read_bytes())
    with (sharded / ".metadata").open("wb") as file:
        OfEarlyPython311(file).dump(index)
    assert b"getattr" in (sharded / ".metadata").read_bytes()
    assert check(str(sharded), tiny_model)["rollouts"] == 4
    for of in ((TensorStorageMetadata, "__init__"), (_MEM_FORMAT_ENCODING, "mro"), (torch.Size, "numel")):
        (sharded / ".metadata").write_bytes(pickle.dumps(Attribute(*of)))
        refused(sharded, tiny_model, f"its index asks for {of[1]} of ")


def flip(file, at):
    """One bit, as a disk may lose it."""
    content = bytearray(file.read_bytes())
    content[at] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("name", ["meta.pt", ".metadata", "sums.json"])
def test_no_bit_of_the_files_beside_the_shards_may_flip(sharded, tiny_model, name):
    """Where no checksums stand beside them, as in older ones, what can be told is told in a sentence too."""
    seal(sharded)
    assert check(str(sharded), tiny_model)["rollouts"] == 4
    kept = (sharded / name).read_bytes()
    for at in range(1, len(kept) - 2, max(1, len(kept) // 60)):
        flip(sharded / name, at)
        refused(sharded, tiny_model, "cannot be read and may be cut off")
        (sharded / name).write_bytes(kept)
    (sharded / "sums.json").unlink()
    for at in range(0, len(kept), max(1, len(kept) // 60)) if name == ".metadata" else ():
        flip(sharded / name, at)
        try:
            check(str(sharded), tiny_model)
        except ValueError as error:
            assert "cannot be read and may be cut off" in str(error)
        (sharded / name).write_bytes(kept)


def test_one_bit_that_is_not_as_it_was_written_is_found(sharded, tiny_model, tmp_path):
    path = tmp_path / "one.ckpt"
    ours = {"model": shape(AutoConfig.from_pretrained(tiny_model)), "rollouts": 4}
    torch.save({"isentropic": ours, "state_dict": {"weight": torch.ones(300, 3)}}, path)
    assert check(str(path), tiny_model)["rollouts"] == 4
    flip(path, path.read_bytes().index(torch.ones(300).numpy().tobytes()) + 500)
    refused(path, tiny_model, r"one.ckpt cannot be read and may be cut off: it is damaged: .*data/0 in it is not as it")
    (shard,) = sharded.glob("*.distcp")
    flip(shard, shard.read_bytes().index(torch.ones(300).numpy().tobytes()) + 500)
    refused(sharded, tiny_model, "distcp is damaged: state_dict.weight is not as it was written")


class Bomb:
    def __reduce__(self):
        return open, ("exploded", "w")


def test_no_code_of_a_foreign_folder_is_run(sharded, tiny_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb, whole = pickle.dumps(Bomb()), (sharded / ".metadata").read_bytes()
    (sharded / ".metadata").write_bytes(bomb)
    refused(sharded, tiny_model, "its index asks for .*open")
    inner = b"ctorch.distributed.checkpoint.metadata\nos.remove\n(S'kept'\ntR."  # what a module that is allowed imports
    (tmp_path / "kept").touch()
    (sharded / ".metadata").write_bytes(inner)
    refused(sharded, tiny_model, "its index asks for .*os.remove")
    assert (tmp_path / "kept").exists()
    (sharded / ".metadata").write_bytes(whole)
    shutil.rmtree(sharded)
    save({"optimizer_0": Bomb(), "state_dict": {}}, checkpoint_id=sharded, no_dist=True)
    torch.save({"isentropic": {}}, sharded / "meta.pt")
    refused(sharded, tiny_model, "cannot be read")
    assert not (tmp_path / "exploded").exists()


def test_adapters_go_with_their_settings_and_their_base(tiny_model, tmp_path):
    adapter = LoraSettings(4, 8.0, ["v_proj", "q_proj"], "float32", 0)
    asked = {"rank": 4, "alpha": 8.0, "targets": ["q_proj", "v_proj"]}
    whole, alone = tmp_path / "whole.ckpt", tmp_path / "alone.ckpt"
    ours = {"model": shape(AutoConfig.from_pretrained(tiny_model)), "rollouts": 4}
    torch.save({"isentropic": ours}, whole)
    torch.save({"isentropic": ours | {"adapter": adapter.state(tiny_model)}}, alone)
    assert check(str(whole), tiny_model)["rollouts"] == check(str(alone), tiny_model, asked)["rollouts"] == 4
    refused(whole, tiny_model, "holds whole weights; take policy/adapter=null", asked)
    refused(alone, tiny_model, "holds adapters alone; take policy/adapter=lora")
    refused(alone, tiny_model, "other settings than policy.adapter: rank 4 instead of 8", asked | {"rank": 8})
    other = AutoModelForCausalLM.from_pretrained(tiny_model)
    with torch.no_grad():
        other.model.layers[1].mlp.up_proj.weight[7, 5] += 1
    other.save_pretrained(tmp_path / "other")
    refused(alone, str(tmp_path / "other"), "adapters only work with the weights", asked)
    shutil.copytree(tiny_model, tmp_path / "copy")
    assert fingerprint(str(tmp_path / "copy")) == fingerprint(tiny_model)


def test_a_folder_around_checkpoints_is_answered_with_their_names(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    for folder in (tmp_path, tmp_path / "checkpoints"):
        with pytest.raises(ValueError, match=r"is a folder of checkpoints; name one of .*checkpoints/last\.ckpt$"):
            read(str(folder))
