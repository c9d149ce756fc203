"""One of two ranks that share a model, run by test_fsdp.py as `two_ranks.py FOLDER RANK MODEL...`."""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from isentropic.batch import RolloutBatch
from isentropic.policy.batching.micro_batches import micro_batches
from isentropic.policy.model import fsdp
from isentropic.policy.model.language_model import LanguageModel, ModelSettings
from isentropic.policy.model.lora import LoraSettings

ADAPTER = LoraSettings(rank=3, alpha=6.0, targets=["q_proj", "o_proj", "down_proj"], base_dtype="float32", seed=5)
TOKENS = torch.randint(24, (4, 11), generator=torch.Generator().manual_seed(0))
MASK = torch.arange(11).expand(4, 11) > 2


def cloned(model, dtype=None):
    return {name: value.clone() for name, value in model.weights(dtype)}


def learnt(model, rows):
    """Weights in two types, log-probs, and what two steps of AdamW make of them."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    found = {"before": cloned(model), "bf16": cloned(model, "bfloat16"), "norms": []}
    for _ in range(2):
        logp, _, _ = model(TOKENS[rows], MASK[rows], 11, 1.0)
        (logp.sum() / len(TOKENS[rows])).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        found["norms"].append(float(norm.full_tensor() if isinstance(norm, DTensor) else norm))
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        found["logp"] = model(TOKENS, MASK, 11, 1.0)[0]
    return found | {"after": cloned(model), "after_bf16": cloned(model, "bfloat16")}


def whole_heads(model):
    """Whether the head is whole after a forward, a gradient asked for at its log-probs, and the backward pass; after a
    reading, and when that is let go."""

    def whole():
        return not isinstance(model.lm.get_output_embeddings().weight, DTensor)

    rows, no = torch.zeros(len(TOKENS)), torch.zeros(len(TOKENS), dtype=torch.bool)
    batch = RolloutBatch(TOKENS, MASK, rows.long(), rows, no, no, torch.zeros(TOKENS.shape))
    (micro,) = micro_batches(MASK, None, None, packed=False)
    logp = model.token_stats(batch, micro, 1.0, "none").logp
    found = [whole()]
    loss = logp.sum()
    torch.autograd.grad(loss, logp, retain_graph=True)
    found.append(whole())
    loss.backward()
    found.append(whole())
    model.batch_stats(batch, [micro], 1.0, "none")
    found.append(whole())
    model.reshard()
    return [*found, whole()]


def gathered(model, once):
    """What two optimizer steps of two micro-batches make of the weights, and between what weights of a layer and of the
    head were whole: after the first micro-batch, after the second, and when all are done."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0)
    places = model.layers[0].self_attn.q_proj, model.lm.get_output_embeddings()
    whole = []
    for _ in range(2):
        with model.keep_gathered(once):
            for rows in ([0, 1], [2, 3]):
                model.set_requires_gradient_sync(rows == [2, 3])
                model(TOKENS[rows], MASK[rows], 11, 1.0)[0].sum().backward()
                whole.append([not isinstance(place.weight, DTensor) for place in places])
        whole.append([not isinstance(place.weight, DTensor) for place in places])
        optimizer.step()
        optimizer.zero_grad()
    with model.keep_gathered(once), torch.no_grad():
        logp = model(TOKENS, MASK, 11, 1.0)[0]
    whole.append([not isinstance(place.weight, DTensor) for place in places])
    return {"whole": whole, "logp": logp, "after": cloned(model)}


def cases(models, mesh, rows):
    for path in models:
        for adapter in (None, ADAPTER):
            settings = ModelSettings(path, "float32", 16, False, "none", False)
            yield (path, adapter is not None), learnt(LanguageModel(settings, mesh, adapter), rows)


if __name__ == "__main__":
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    mine = [rank, rank + 2]
    found = dict(cases(sys.argv[3:], mesh, mine))
    fsdp.BUCKET = 5000  # some tensors are larger, and some buckets hold several
    for path in sys.argv[3:]:
        model = LanguageModel(ModelSettings(path, "float32", 16, False, "none", False), mesh)
        found[path, "buckets"] = cloned(model, "bfloat16")
        found[path, "whole"] = whole_heads(model)
        for once in (False, True):
            model = LanguageModel(ModelSettings(path, "float32", 16, False, "none", False), mesh)
            found[path, "gathered", once] = gathered(model, once)
    torch.save(found, folder / f"{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
