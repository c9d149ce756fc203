"""Runs that a mean would hide: NaN, stopped early, alarms, parts that never act. Named, and in or out of statistics."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from isentropic.reporting.analysis.groups import Group
from isentropic.runs.metrics import Series
from isentropic.runs.run import Run

DRIVE = ("control/up", "control/down")


@dataclass(frozen=True)
class Odd:
    """Something about a run; a run may have several."""

    run: Run
    kind: str  # status, short, evaluation, nan, gap, skipped, dropped, idle, files, twice
    sentence: str
    included: bool  # whether the run is in the statistics all the same


def odd(groups: Sequence[Group]) -> list[Odd]:
    repeated = twice(groups)
    found: list[Odd] = []
    for run in (run for group in groups for run in group.runs):
        there = complete(run) and run.folder not in repeated
        told = [(kind, sentence) for rule in RULES for kind, sentence in rule(run)]
        if run.folder in repeated:
            told.append(("twice", f"has the settings and the seed of {repeated[run.folder]}, which has more to show"))
        found += [Odd(run, kind, sentence, there) for kind, sentence in told]
    return found


def complete(run: Run) -> bool:
    """Whether its final score is one: evaluated after the last of the rollouts that it was to learn from."""
    if run.status == "running" or not run.metrics or (run.planned is not None and run.rollouts < run.planned):
        return False
    return any(int(run.metrics[n].steps[-1]) >= run.rollouts for n in run.scores) if run.scores else True


def twice(groups: Sequence[Group]) -> dict[object, str]:
    """Folders of runs that repeat another of their group, seed and all → the one that counts. They are no new draw."""
    repeated: dict[object, str] = {}
    for group in groups:
        best: dict[object, Run] = {}
        for run in group.runs:
            if run.seed is None:
                continue
            other = best.get(run.seed)
            if other is None or _worth(run) > _worth(other):
                best[run.seed] = run
        repeated |= {r.folder: best[r.seed].folder.name for r in group.runs if best.get(r.seed, r) is not r}
    return repeated


def _worth(run: Run) -> tuple[bool, bool, int]:
    return complete(run), run.status == "done", run.rollouts


def _status(run: Run) -> Iterator[tuple[str, str]]:
    why = f": {run.error}" if run.error else ""
    words = {
        "failed": f"failed{why}",
        "stopped": f"was stopped{why}",
        "running": "is still running",
        "unfinished": "ended without saying so",
    }
    if run.status in words:
        yield "status", words[run.status]


def _short(run: Run) -> Iterator[tuple[str, str]]:
    if run.planned is not None and run.rollouts < run.planned:
        yield "short", f"learnt from {run.rollouts} of {run.planned} rollouts"


def _evaluation(run: Run) -> Iterator[tuple[str, str]]:
    if run.metrics and not run.scores:
        yield "evaluation", "was never evaluated"
    late = max((int(run.metrics[name].steps[-1]) for name in run.scores), default=run.rollouts)
    if late < run.rollouts:
        yield "evaluation", f"was last evaluated at rollout {late} of {run.rollouts}"


def _nan(run: Run) -> Iterator[tuple[str, str]]:
    if run.broken:
        names = ", ".join(f"{name} from rollout {step} on" for name, step in sorted(run.broken.items()))
        yield "nan", f"logged NaN or infinity: {names}"


def _gap(run: Run) -> Iterator[tuple[str, str]]:
    tolerance = run.config.get("callbacks.weight_sync.tolerance")
    series = run.metrics.get("sampler/logp_gap")
    if series is None or not isinstance(tolerance, int | float):
        return
    over = series.values > tolerance
    if over.any():
        yield (
            "gap",
            f"sampler and policy were up to {series.values.max():.3g} nats per token apart, above the tolerance of"
            f" {tolerance:g} in {_rollouts(over)}",
        )


def _skipped(run: Run) -> Iterator[tuple[str, str]]:
    yield from _counted(run, "policy/skipped", "skipped", "skipped updates, whose gradients were not finite, in")
    yield from _counted(run, "policy/empty", "dropped", "had optimizer steps of which credit rules left no token, in")


def _masked(run: Run) -> Iterator[tuple[str, str]]:
    limit, series = run.config.get("callbacks.dropped.limit"), run.metrics.get("sampler/masked")
    if series is not None and isinstance(limit, int | float) and (series.values > limit).any():
        yield "dropped", f"masked more than {limit:.0%} of the tokens in {_rollouts(series.values > limit)}"
    filled = run.metrics.get("rollout/filled")
    if filled is not None and (filled.values < 1).any():
        yield "dropped", f"kept fewer groups than were wanted in {_rollouts(filled.values < 1)}"


def _idle(run: Run) -> Iterator[tuple[str, str]]:
    rules = [n for n, s in run.metrics.items() if n.startswith("credit/") and _never(s)]
    drives = [run.metrics[name] for name in DRIVE if name in run.metrics]
    if drives and all(_never(series) for series in drives):
        yield "idle", "its entropy controller never asked for anything (control/up and control/down are always 0)"
    for name in rules:
        yield "idle", f"its credit rule {name.removeprefix('credit/')} never changed a token"


def _files(run: Run) -> Iterator[tuple[str, str]]:
    for remark in run.remarks:
        yield "files", remark


def _never(series: Series) -> bool:
    return len(series.values) > 1 and not series.values.any()


def _counted(run: Run, name: str, kind: str, words: str) -> Iterator[tuple[str, str]]:
    series = run.metrics.get(name)
    if series is not None and (series.values > 0).any():
        yield kind, f"{words} {_rollouts(series.values > 0)}"


def _rollouts(which: object) -> str:
    count = int(sum(which))  # pyright: ignore[reportCallIssue, reportArgumentType]
    return f"{count} rollout{'s' if count > 1 else ''}"


RULES: tuple[Callable[[Run], Iterator[tuple[str, str]]], ...] = (
    _status,
    _short,
    _evaluation,
    _nan,
    _gap,
    _skipped,
    _masked,
    _idle,
    _files,
)
