"""Names that were given up do not come back: not in code, settings, docs or notebooks."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NOW = {
    r"rollout\.size": "rollout.batch_size",
    r"rollout\.group": "rollout.group_size",
    r"rollout\.ahead": "rollout.one_step_off_policy",
    r"rollout\.judging": "rollout.evaluation",
    r"policy\.reread": "policy.recompute_logp",
    r"policy\.one_forward": "policy.skip_old_logp_forward",
    r"policy\.model\.chunk": "policy.model.logits_chunk",
    r"(?:policy\.)?optimization\.micro_tokens": "max_tokens_per_micro_batch",
    r"(?:policy\.)?optimization\.read_tokens": "max_tokens_no_grad",
    r"(?:policy\.)?optimization\.sharded_weights": "reshard_after_forward",
    r"sampler\.patience": "sampler.timeout",
    r"sampler\.short_way": "sampler.fast_decode",
    r"isentropic\.types": "isentropic.batch",
    r"isentropic\.(?:tensors|layout)": "isentropic.distributed or isentropic.reductions",
    r"-m isentropic\.(?:report|plan|inspect|preflight|tune|export|benchmark|methods)": "-m isentropic ...",
}
WAS = re.compile("|".join(rf"(?<![\w.])(?:{old})(?![\w])" for old in NOW))
KINDS = {".py", ".yaml", ".md", ".ipynb", ".toml"}
# These say what a name was: the history, recorded runs, and tests of the sentences that answer an old key.
SAY_SO = (
    "CHANGELOG.md",
    "docs/results/",
    "benchmarks/results/",
    "src/isentropic/runs/renamed.py",
    "tests/runs/test_renamed.py",
    "tests/test_bad_input.py",
    "tests/test_leftovers.py",
)


def test_no_old_name_is_left():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    paths = [ROOT / line for line in listed.stdout.split("\0") if line and not line.startswith(SAY_SO)]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {was.group()}"
        for path in paths
        if path.suffix in KINDS and path.is_file()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for was in WAS.finditer(line)
        if not any(now in line for now in NOW.values())  # a line with both says what an old key is called today
    ]
    assert found == []
