"""Any algorithm on saved rollouts, token by token: `isentropic inspect rollouts=FILE`, explained in docs/inspect.md."""

import csv
import json
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from isentropic.config.build import bad_input, build
from isentropic.config.entry import main

if TYPE_CHECKING:
    from rich.table import Table

    from isentropic.algorithm.algorithm import Algorithm
    from isentropic.algorithm.trace import Trace
    from isentropic.runs.replay import Saved

Row = dict[str, str | int | float | None]
ALWAYS = ("completion", "place", "token", "quadrant", "advantage", "ratio", "gradient")
NEVER = ("group", "reward", "surrogate")  # on the screen
SHARE = "share of "
WIDTH = 140  # of the screen at least: files and pipes have no width


@main("inspect")
def inspect(cfg: DictConfig) -> None:
    """Prints what each rule did and every token; writes tokens.csv and inspect.json into the run's folder."""
    from isentropic.runs.replay import load

    with bad_input("rollouts"):
        saved = load(Path(cfg.rollouts), cfg.step)
    algorithm = build(cfg, "algorithm")
    with bad_input():
        seen, summary = examine(algorithm, saved, cfg.rollouts, cfg.entropy, cfg.progress)
    rows = tabulate(seen, saved)
    save(Path(cfg.paths.output), summary, rows)
    show(summary, rows, cfg.shown)
    if cfg.html is not None:
        with bad_input("html"):
            page = draw(Path(cfg.html), cfg.method, lines(seen, saved))
        print(f"token page: {page}")


def examine(
    algorithm: "Algorithm", saved: "Saved", file: str, entropy: float | None = None, progress: float = 0.0
) -> "tuple[Trace, dict[str, Any]]":
    """One update on all completions, and a summary of it; `entropy` is None for the mean over the file's tokens.

    Moves the controller. Raises ValueError where a part reads what the file does not say, or an update does not know.
    """
    from isentropic.algorithm.trace import trace
    from isentropic.batch import Vitals
    from isentropic.reductions import masked_mean

    read = float(masked_mean(saved.batch.old_entropy, saved.batch.mask)) if entropy is None else entropy
    seen = trace(algorithm, saved.batch, saved.now, Vitals(read, progress))
    complain(seen, saved, file)
    return seen, {
        "loss": number(seen.loss),
        "step": saved.step,
        "control": {"entropy": number(read), "up": seen.drive.up, "down": seen.drive.down},
        "rules": seen.rules,
        "metrics": {name: number(value) for name, value in seen.metrics.items()},
        "reads": {part: sorted(names) for part, names in seen.reads.items()},
    }


def complain(seen: "Trace", saved: "Saved", file: str) -> None:
    """Raises ValueError where a part read what the file does not say: its numbers would mean nothing."""
    mask = saved.batch.mask
    for part, names in seen.reads.items():
        for name in sorted(names):
            owner, _, field = name.partition(".")
            values = getattr({"batch": saved.batch, "now": saved.now}.get(owner), field, None)
            if values is None or not values.is_floating_point() or values.shape != mask.shape:
                continue
            missing = int((values.isnan() & mask).sum())
            if missing:
                key, whole = field.removeprefix("old_"), int(mask.sum())
                raise ValueError(f"{part} reads {key}, which {file} does not give on {missing} of {whole} tokens")


def tabulate(seen: "Trace", saved: "Saved") -> list[Row]:
    """One row per token. A number that is not finite is null."""
    rows: list[Row] = []
    batch = saved.batch
    given = {"logp": batch.old_logp, "new_logp": saved.now.logp, "entropy": batch.old_entropy}
    for r, c in batch.mask.nonzero().tolist():
        sets = [name for name, tokens in seen.quadrants.items() if tokens[r, c]]
        row: Row = {
            "completion": r + 1,
            "group": int(batch.group[r]) + 1,
            "place": c + 1,
            "token": saved.labels[r][c],
            "reward": number(batch.reward[r]),
            "quadrant": sets[0] if sets else "neutral",
        }
        if any(saved.observed):
            row |= {"turn": int(batch.turn[r, c]), "observed": saved.observed[r].get(c, "")}  # before this token
        row |= {name: number(values[r, c]) for name, values in (given | seen.tokens).items()}
        row["clipped"] = " ".join(side for side, tokens in seen.clipped.items() if tokens[r, c])
        rows.append(row)
    return rows


def number(value: Any) -> float | None:
    return float(value) if isfinite(value) else None


def save(folder: Path, summary: dict[str, Any], rows: list[Row]) -> None:
    (folder / "inspect.json").write_text(json.dumps(summary | {"tokens": rows}, indent=1) + "\n", encoding="utf-8")
    with (folder / "tokens.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


def lines(seen: "Trace", saved: "Saved") -> list[dict[str, Any]]:
    """Each completion as in a run's samples.jsonl."""
    columns = {"logp": saved.batch.old_logp, "entropy": saved.batch.old_entropy, "ratio": seen.tokens["ratio"]}
    names = {"estimate": "advantage", "advantages": "credit", "weight": "weight"}
    columns |= {name: seen.tokens[column] for name, column in names.items()}
    found: list[dict[str, Any]] = []
    for r, chosen in enumerate(saved.batch.mask):
        line: dict[str, Any] = {"step": saved.step, "group": int(saved.batch.group[r]) + 1, "prompt": saved.prompts[r]}
        read = saved.observed[r]
        whole = "".join(read.get(place, "") + text for place, text in enumerate(saved.labels[r]))
        line |= {"completion": whole, "texts": saved.labels[r], "observed": [list(one) for one in read.items()]}
        line |= {"reward": number(saved.batch.reward[r]), "correct": bool(saved.batch.correct[r])}
        line |= {"truncated": bool(saved.batch.truncated[r]), "kept": seen.credit.mask[r][chosen].tolist()}
        line |= {name: [number(value) for value in values[r][chosen]] for name, values in columns.items()}
        ends = {name: seen.tokens[name][r][chosen] for name in ("low", "high") if name in seen.tokens}
        line["limits"] = {name: [number(value) for value in values] for name, values in ends.items()}
        for name, masks in (("touched", seen.affected), ("clipped", seen.clipped)):
            line[name] = {one: tokens[r][chosen].nonzero()[:, 0].tolist() for one, tokens in masks.items()}
        found.append(line)
    return found


def draw(page: Path, method: str, completions: list[dict[str, Any]]) -> Path:
    try:
        from isentropic.reporting.render import tokens
        from isentropic.runs.completions import of_line
    except ModuleNotFoundError as error:
        raise ValueError(f"html={page} needs {error.name}; pip install 'isentropic[report]'") from error
    return tokens.add(tokens.Sheet(method, [of_line(line) for line in completions], {}, []), page)


def show(summary: dict[str, Any], rows: list[Row], count: int) -> None:
    from rich.console import Console

    console = Console(highlight=False, width=max(WIDTH, Console().width))
    for rule, deeds in summary["rules"].items():
        said = [f"{name} {value:.4g}" for name, value in deeds.items() if not name.startswith(SHARE)]
        shares = {name.removeprefix(SHARE): value for name, value in deeds.items() if name.startswith(SHARE)}
        of = ", ".join(f"{name.replace('_', ' ')} {value:.1%}" for name, value in shares.items())
        console.print(f"{rule}: {', '.join(said)}; affected of {of}", soft_wrap=True)
    console.print(tokens_table(rows[:count]))
    same = [f"{name} {shown(rows[0][name]) or 'none'}" for name in constant(rows)]
    if same:
        console.print(f"the same for all tokens: {', '.join(same)}")
    if len(rows) > count:
        console.print(f"{len(rows) - count} more tokens are in tokens.csv; shown={len(rows)} prints all")
    control, change = summary["control"], summary["metrics"].get("entropy/predicted_change")
    reading = nan if control["entropy"] is None else control["entropy"]
    console.print(f"controller: up {control['up']:g}, down {control['down']:g} at {reading:.6f} nats per token")
    if change is not None:
        console.print(f"predicted change of entropy: {change:+.6f} nats per unit of a step on the logits")
    console.print(f"loss {nan if summary['loss'] is None else summary['loss']:.6f}")


def tokens_table(rows: list[Row]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table, left_out = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0)), (*constant(rows), *NEVER)
    columns = [name for name in (rows[0] if rows else {}) if name not in left_out]
    if sum(name.startswith("weight ") for name in columns) == 1:
        columns.remove("weight")
    for name in columns:
        words = isinstance(rows[0][name], str)
        table.add_column(name.replace("_", " "), justify="left" if words else "right", no_wrap=words)
    for index, row in enumerate(rows):
        last = index + 1 < len(rows) and rows[index + 1]["completion"] != row["completion"]
        table.add_row(*(shown(row[name]).replace("_", " ") for name in columns), end_section=last)
    return table


def constant(rows: list[Row]) -> list[str]:
    """Columns that say one thing of all tokens, but for those one always looks for."""
    names = [name for name in (rows[0] if rows else {}) if name not in (*ALWAYS, *NEVER)]
    return [name for name in names if len({row[name] for row in rows}) == 1]


def shown(value: str | float | None) -> str:
    return f"{round(value, 4):g}" if isinstance(value, float) else "" if value is None else str(value)


if __name__ == "__main__":
    inspect()
