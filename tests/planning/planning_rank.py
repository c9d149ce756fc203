"""One rank of two, run by test_workload.py as `planning_rank.py FOLDER RANK`: the first plans while both run."""

import sys
from pathlib import Path

import torch.distributed as dist

from isentropic.commands.plan import composed, planned

PLAN = "experiment=stare_r1_distill_qwen_1_5b"

if __name__ == "__main__":
    folder, rank = Path(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    if rank == 0:
        print(planned(composed(PLAN)).duration.step)
    dist.barrier()
    dist.destroy_process_group()
