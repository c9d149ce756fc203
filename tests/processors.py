"""Tests that compare numbers, for each kind of processor and number of threads, and at a load: `make test-processors`.

ATen has its kernels three times, for all processors, AVX2 and AVX-512, and sums in another order in each, as it does
with another number of threads. What a processor lacks is left out and said. Arguments go to pytest.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NUMERIC = ["algorithm", "callbacks", "evaluation", "policy", "rollout", "sampler/test_hf.py", "test_batch.py"]
NUMERIC += ["test_families.py", "test_reductions.py", "test_state.py", "test_train.py"]
KINDS = {"default": "DEFAULT", "avx2": "AVX2", "avx512": "AVX512"}  # as ATEN_CPU_CAPABILITY says it, and as torch does
THREADS = (1, 2, 4)
LOAD = 8  # processes that do nothing else than take time
ASK = "import torch; print(torch.backends.cpu.get_cpu_capability())"


def kinds() -> list[str]:
    """What this processor has: one that is asked for and not there ends in an illegal instruction."""
    clean = {name: value for name, value in os.environ.items() if name != "ATEN_CPU_CAPABILITY"}
    asked = subprocess.run([sys.executable, "-c", ASK], env=clean, capture_output=True, text=True, check=True)
    best = [*KINDS.values()].index(found) if (found := asked.stdout.strip()) in KINDS.values() else 0
    for missing in [*KINDS][best + 1 :]:
        print(f"{missing}: not on this processor, whose best is {found}")
    return [*KINDS][: best + 1]


def run(arguments: list[str], **variables: str) -> tuple[int, str]:
    """Exit status of pytest, and its last line."""
    named = any(Path(one.partition("::")[0]).exists() for one in arguments)
    places = [] if named else [str(ROOT / "tests" / one) for one in NUMERIC]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "numeric or not slow and not slurm"]
    command += ["--numprocesses", "2", "--dist", "loadfile", "--no-loadscope-reorder", *places, *arguments]
    variables |= {"HF_HUB_OFFLINE": "1", "MKL_NUM_THREADS": variables["OMP_NUM_THREADS"]}
    variables["OMP_WAIT_POLICY"] = "PASSIVE"  # more threads than cores would mostly spin
    ended = subprocess.run(command, env=os.environ | variables, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    lines = ended.stdout.strip().splitlines() or ["nothing was said"]
    if ended.returncode:
        print("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR", "E  "))))
    return ended.returncode, lines[-1]


def main(arguments: list[str]) -> int:
    best, worst = "default", 0
    for best in kinds():
        for threads in THREADS:
            start = time.monotonic()
            code, said = run(arguments, ATEN_CPU_CAPABILITY=best, OMP_NUM_THREADS=str(threads))
            print(f"{best:8} {threads} threads  {said}  ({time.monotonic() - start:.0f} s)", flush=True)
            worst = max(worst, code)
    busy = [subprocess.Popen(["nice", sys.executable, "-c", "while True: pass"]) for _ in range(LOAD)]
    try:
        code, said = run(arguments, ATEN_CPU_CAPABILITY=best, OMP_NUM_THREADS="1")
    finally:
        for one in busy:
            one.kill()
            one.wait()
    print(f"{best:8} 1 threads  {said}  (beside {LOAD} busy processes)", flush=True)
    return max(worst, code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
