"""One rank of a world with an engine of its own on each, or one together; run by test_colocated.py."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from transformers import AutoModelForCausalLM

sys.path.append(str(Path(__file__).parents[2]))
from turns_on_two_ranks import described, played

from isentropic.sampler import Decoding
from isentropic.sampler.vllm.colocated import VllmSampler, available

path, folder, rank, engine = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
sampler = VllmSampler(path, **engine)
imported = available() and "vllm" in sys.modules
sampler.start()
threads = torch.get_num_threads()
left = [str(file) for file in Path("/dev/shm").glob(f"*-cpushm_{rank}")]  # what a killed process would leave
sampler.update_weights(AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).state_dict().items())
decoding = Decoding(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, max_tokens=16, stop=None)
prompts = [[2, 3 + rank + i] for i in range(2 + rank)]  # not equally many on both
groups = sampler.sample(prompts, 2, [100 * prompt[1] for prompt in prompts], decoding)
if rank:  # and once more where the other only joins
    again = sampler.sample(prompts, 2, [100 * prompt[1] for prompt in prompts], decoding)
    assert again == groups
sampler.participate_idle(decoding)
scores = sampler.score([2, 3, 4, 5])
batches = played(sampler, path)
dist.barrier()
sampler.stop()
total = torch.ones(1)
dist.all_reduce(total)  # the trainer's group outlives the engine
turns = torch.tensor([int(batch.turn.max()) + 1 for batch in batches])
dist.all_reduce(turns)  # ranks still meet, after rollouts of different lengths
with open(f"{folder}/rank{rank}.json", "w") as file:
    json.dump(
        {
            "tokens": {prompt[1]: [c.tokens for c in group] for prompt, group in zip(prompts, groups, strict=True)},
            "scores": scores,
            "total": total.item(),
            "imported": imported,
            "threads": threads,
            "left": left,
            "batches": [described(batch) for batch in batches],
            "turns": turns.tolist(),
            "environment": [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")],
        },
        file,
    )
dist.destroy_process_group()
