"""The table of methods, from the recipes themselves, to docs/methods.md and README.md: `isentropic methods`.

What a recipe is comes from its YAML and its header, what it does from running it.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isentropic.algorithm.algorithm import Algorithm
from isentropic.algorithm.introspection import PartsInfo, describe_parts, differ, still
from isentropic.batch import ScoredBatch, TokenStats
from isentropic.config.build import build
from isentropic.config.compose import ROOT
from isentropic.config.recipes import Recipe, configured, recipes
from isentropic.config.refused import refuse
from isentropic.policy.model.logprobs import entropy, sensitivity

PAGE, README = ROOT / "docs" / "methods.md", ROOT / "README.md"
START, END = "<!-- methods: written by isentropic methods -->", "<!-- end of methods -->"
BESIDE = 3  # methods in one line of the README's table

INTRODUCTION = """# Methods

Written by `isentropic methods` from the recipes in `configs/algorithm/`, each of which is one value of
`algorithm=`; a test fails while this page is older than they are. What a method reads, where it has gradient, what it
takes over all ranks and what is inert is found by running it on made-up rollouts, not declared.

**Formula**: A was read in the authors' code or the paper's full text; B in the authors' blog or figures, or in two
independent sources that agree; C in one secondary source, or inferred; ? is not found.

## What each is

A recipe stands on top of another and replaces parts or settings of it.
"""
MECHANICS = """
## What each does

- **reads**: fields of the rollout, `old_` ones of the policy that sampled, and `now.` ones of the policy at the update,
  in parts other than the ratio. `ref_logp` needs a reference policy, `sampler_logp` a sampler that says its log-probs.
- **gradient**: what the loss has a gradient in. All else is detached: credit, and the limits of the ratio.
- **over all ranks**: functions of `reductions.py` over the whole optimizer step that its parts call. The loss besides
  divides by counts of all ranks. A group never spans ranks.
- **inert with one update**: parts that change nothing while every ratio is 1, as with one optimizer step per rollout
  (`policy.optimization.mini_batch` = `rollout.batch_size`).
- **several updates**: needed where the method, apart from how it averages, would else be the one it stands on.
- **follows the controller**: parts that read how hard `control` pushes.
"""


def example() -> tuple[ScoredBatch, TokenStats]:
    """Eight groups of four answers, of tokens likely and rare, by a random policy; and that policy after a step."""
    draw = torch.Generator().manual_seed(0)
    rows, width, vocabulary = 32, 12, 16
    logits = 4 * torch.randn(rows, width, vocabulary, generator=draw, dtype=torch.float64)
    moved = logits + 0.6 * torch.randn(logits.shape, generator=draw, dtype=torch.float64)
    any_token = torch.randint(vocabulary, (rows, width), generator=draw)
    tokens = torch.where(torch.rand(rows, width, generator=draw) < 0.6, logits.argmax(-1), any_token)
    lengths = torch.randint(1, width + 1, (rows, 1), generator=draw)
    reward = torch.randint(2, (rows,), generator=draw).double()
    old, now = read(logits, tokens), read(moved, tokens)
    batch = ScoredBatch(
        tokens=tokens,
        mask=torch.arange(width) < lengths,
        group=torch.arange(rows) // 4,
        reward=reward,
        correct=reward > 0,
        truncated=lengths[:, 0] == width,
        sampler_logp=old.logp + 0.3 * torch.randn(tokens.shape, generator=draw, dtype=torch.float64),
        old_logp=old.logp,
        old_entropy=old.entropy,
        old_sensitivity=old.sensitivity,
        ref_logp=old.logp + 0.1,
    )
    return batch, now


def read(logits: Tensor, tokens: Tensor) -> TokenStats:
    log_probs = logits.log_softmax(-1)
    logp = log_probs.gather(-1, tokens[..., None])[..., 0]
    h = entropy(log_probs.flatten(0, 1))
    return TokenStats(logp, h.view_as(logp), sensitivity(log_probs.flatten(0, 1), logp.flatten(), h).view_as(logp))


def page() -> str:
    """docs/methods.md"""
    batch, now = example()
    listed = list(recipes())
    parts = {recipe.name: build(configured(recipe.name), "algorithm") for recipe in listed}
    found = [(recipe, describe_parts(parts[recipe.name], batch, now)) for recipe in listed]
    late = needy({recipe.name: recipe for recipe in listed}, parts, batch, now)
    heads = ["method", "`algorithm=`", "paper", "formula", "what it does", "on top of", "new"]
    first = table(heads, map(what_it_is, found))
    heads = ["`algorithm=`", "reads", "gradient", "over all ranks", "inert with one update", "several updates"]
    second = table([*heads, "follows the controller"], (what_it_does(*row, row[0].name in late) for row in found))
    return INTRODUCTION + "\n" + first + MECHANICS + "\n" + second


def needy(listed: dict[str, Recipe], parts: dict[str, Algorithm], batch: ScoredBatch, now: TokenStats) -> set[str]:
    """Those that one update per rollout makes the method they stand on. Another controller alone is no other method."""

    def needs(name: str) -> bool:
        base = listed[name].base
        if not base or listed[name].own == {"control"}:
            return bool(base) and needs(base)
        pair = parts[name], replace(parts[base], aggregation=parts[name].aggregation)
        return differ(*pair, batch, now) and not differ(*pair, batch, still(batch))

    return {name for name in listed if needs(name)}


def what_it_is(row: tuple[Recipe, PartsInfo]) -> list[str]:
    recipe, _ = row
    files = [f"[{name}](../src/isentropic/algorithm/{name})" for name in recipe.new]
    grade = f"{recipe.grade}: {recipe.why}" if recipe.why else recipe.grade
    base = f"`{recipe.base}`" if recipe.base else ""
    changes = ", ".join([*files, *(f"`{one}`" for one in recipe.settings)])
    return [recipe.title, f"`{recipe.name}`", recipe.link, grade, recipe.what, base, changes]


def what_it_does(recipe: Recipe, fact: PartsInfo, late: bool) -> list[str]:
    reads = sorted(name.removeprefix("batch.") for name in fact.reads - {"batch.mask"})
    cells = [", ".join(f"`{n}`" for n in names) for names in (reads, sorted(fact.gradient), sorted(fact.reductions))]
    inert, follows = ", ".join(sorted(fact.inert)), ", ".join(sorted(fact.follows))
    return [f"`{recipe.name}`", *cells, inert, "needed" if late else "", follows]


def block() -> str:
    """Between the marks in README.md: several methods in each line."""
    cells = [cell for r in recipes() for cell in (f"`{r.name}`", r.link, r.grade)]
    width = 3 * BESIDE
    cells += [""] * (-len(cells) % width)
    rows = (cells[i : i + width] for i in range(0, len(cells), width))
    return table(["`algorithm=`", "paper", "formula"] * BESIDE, rows)


def table(heads: list[str], rows: Any) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def readme(text: str) -> str:
    """With the block renewed. Raises ValueError without the marks."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not (start and end):
        raise ValueError(f"README.md must have the lines {START} and {END}")
    return f"{before}{START}\n{block()}{END}{after}"


def main(page_file: Path = PAGE, readme_file: Path = README) -> None:
    page_file.write_text(page(), encoding="utf-8")
    readme_file.write_text(readme(readme_file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        refuse(f"isentropic methods takes no settings, and was given {' '.join(sys.argv[1:])}")
    main()
