"""A report in sentences: what differs, and what cannot be claimed."""

from isentropic.reporting.analysis.entropy_verdict import Verdict
from isentropic.reporting.analysis.estimate import FEW
from isentropic.reporting.analysis.scores import Score, title
from isentropic.reporting.analysis.significance import ENOUGH, Comparison
from isentropic.reporting.render.curve_figures import title_of
from isentropic.reporting.render.report import Report, told
from isentropic.reporting.render.score_figures import inner
from isentropic.runs.renamed import FOLLOWED
from isentropic.runs.run import Run

LONGEST = 16  # sentences of one kind
FULL = 6  # groups whose scores are all told; of more, the best few, as a table has them all
BEST = 3
SAID = {
    "higher": "is higher than that of {}",
    "lower": "is lower than that of {}",
    "suggests higher": "looks higher than that of {}, which is suggested, not shown",
    "suggests lower": "looks lower than that of {}, which is suggested, not shown",
    "open": "cannot be told apart from that of {}",
}
JUDGED_BY = ("task", "evaluation", "rollout.evaluation")  # settings that change what a score means


def summary(report: Report) -> list[str]:
    return [_what(report), *_levels(report), *_differences(report), *_entropies(report)]


def headline(report: Report) -> str:
    """The report in one sentence: by the score that it leads with, what differs from the reference."""
    pairs = told(report.comparisons, report.reference, report.primary)
    if not pairs:
        return ""
    score, base = title(pairs[0].metric), report.reference.label
    sure = [pair for pair in pairs if pair.verdict in ("higher", "lower")]
    maybe = [pair for pair in pairs if pair.verdict.startswith("suggests")]
    if not sure and not maybe:
        few = all(pair.verdict == "too few" for pair in pairs)
        why = "there are too few seeds to tell" if few else "nothing stands out of the spread of seeds"
        return f"In {score} no group is shown to differ from {base}: {why}."
    told_of = "; ".join(f"{pair.ours.label} is {pair.verdict} ({pair.change})" for pair in (sure or maybe)[:BEST])
    rest = len(sure or maybe) - BEST
    more = f", and {rest} other{'s' if rest > 1 else ''}" if rest > 0 else ""
    if sure:
        return f"In {score}, against {base}: {told_of}{more}."
    return (
        f"In {score} no group is shown to differ from {base}; suggested: {told_of.replace('is suggests', 'is')}{more}."
    )


def cautions(report: Report) -> list[str]:
    return [
        *_seeds(report),
        *_tested(report),
        *_power(report),
        *_open(report),
        *_left_out(report),
        *_many(report),
        *_unlike(report),
        *_silent(report),
        *report.notes,
    ]


def _what(report: Report) -> str:
    runs, groups, keys = len(report.runs), len(report.groups), len(report.settings)
    text = f"{runs} run{'s' if runs != 1 else ''} in {groups} group{'s' if groups != 1 else ''}"
    labels = ", ".join(group.label for group in report.groups[:LONGEST])
    more = f" and {groups - LONGEST} others" if groups > LONGEST else ""
    if groups == 1:
        return f"{text}: {labels}. There is nothing to compare it with."
    differ = f" They differ in {keys} setting{'s' if keys != 1 else ''}." if keys else ""
    return f"{text}: {labels}{more}.{differ} What others are compared with is {report.reference.label}."


def _levels(report: Report) -> list[str]:
    sentences: list[str] = []
    along = inner(report.scores) - {report.primary or ""}
    metrics = dict.fromkeys(score.metric for score in report.scores if score.metric not in along)
    for metric in sorted(metrics, key=lambda name: name != report.primary):
        rows = [score for score in report.scores if score.metric == metric and score.group in report.shown]
        rows = sorted(rows, key=lambda score: -score.estimate.point)
        told = rows if len(rows) <= FULL else [s for s in rows if s in rows[:BEST] or s.group is report.reference]
        lead = "" if told == rows else f", the highest {BEST} and {report.reference.label}"
        sentences.append(f"{_capital(title(metric))}{lead}: {'; '.join(_level(score) for score in told)}.")
    return sentences


def _level(score: Score) -> str:
    point, low, high, size = score.estimate
    interval = f" [{low:.3f}, {high:.3f}]" if low == low else ""
    return f"{score.group.label} {point:.3f}{interval} ({size} seed{'s' if size > 1 else ''})"


def _differences(report: Report) -> list[str]:
    known = [pair for pair in report.comparisons if pair.verdict not in ("open", "too few")]
    sure = [pair for pair in known if pair.verdict in ("higher", "lower")]
    maybe = [pair for pair in known if pair.verdict.startswith("suggests")]
    first = [pair for pair in maybe if report.primary in (None, pair.metric)]
    others = len(maybe) - len(first)
    rest = f"By other scores {others} difference{'s are' if others > 1 else ' is'} suggested, which the table has."
    return _listed(sure) + _listed(first) + ([rest] if others else [])


def _listed(pairs: list[Comparison]) -> list[str]:
    """One sentence for all that fared alike against the same group."""
    found: dict[tuple[str, str, str], list[Comparison]] = {}
    for pair in pairs:
        found.setdefault((pair.metric, pair.theirs.label, pair.verdict), []).append(pair)
    sentences: list[str] = []
    for (metric, theirs, verdict), ones in found.items():
        groups = "; ".join(f"{pair.ours.label} ({pair.change})" for pair in ones)
        if verdict == "open" and len(ones) > FULL:
            groups = f"{len(ones)} groups, which the table of differences has"
        sentences.append(f"{_capital(title(metric))} {SAID[verdict].format(theirs)}: {groups}.")
    return sentences


def _entropies(report: Report) -> list[str]:
    """Groups that fared alike in one sentence, and so all whose every run collapsed without a target."""
    known = {
        group.label: [v for run in group.runs if (v := report.verdicts[run.folder]).drift is not None]
        for group in report.groups
    }
    lost = [label for label, all_of in known.items() if all_of and all(v.collapse and not v.in_band for v in all_of)]
    together = {", ".join(lost): [verdict for label in lost for verdict in known[label]]} if len(lost) > 1 else {}
    apart = {label: verdicts for label, verdicts in known.items() if verdicts and not (together and label in lost)}
    fates: dict[str, list[str]] = {}
    for labels, verdicts in (together | apart).items():
        fates.setdefault(_entropy(verdicts), []).append(labels)
    return [f"Entropy of {', '.join(labels)}: {fate}" for fate, labels in fates.items()][:LONGEST]


def _entropy(known: list[Verdict]) -> str:
    fallen = sorted(verdict.collapse for verdict in known if verdict.collapse is not None)
    where = f", from rollout {fallen[0]}" + (f" to {fallen[-1]}" if len(fallen) > 1 else "") + " on" if fallen else ""
    late = [verdict.in_band_late for verdict in known if verdict.in_band_late is not None]
    shares = f"{min(late):.0%}" + (f" to {max(late):.0%}" if max(late) - min(late) > 0.005 else "") if late else ""
    band = f"; {shares} of the rollouts of the last half lie in the target's band" if late else ""
    swing = sum(verdict.period is not None for verdict in known)
    swings = f"; {swing} swing{'s' if swing == 1 else ''} beyond noise" if swing else ""
    return f"{len(fallen)} of {len(known)} run{'s' if len(known) > 1 else ''} collapsed{where}{band}{swings}."


def _seeds(report: Report) -> list[str]:
    """How many there are, and whether that is enough."""
    counts = [sum(run.folder in report.included for run in group.runs) for group in report.groups]
    fewest, most = min(counts), max(counts)
    span = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    text = f"{len(counts)} group{'s' if len(counts) != 1 else ''} with {span} seed{'s' if most != 1 else ''} each"
    if fewest < FEW:
        return [f"{text}: fewer than {FEW} seeds have no interval, and nothing can be claimed of them."]
    if fewest < ENOUGH:
        return [f"{text}: with fewer than {ENOUGH} a difference is suggested at most."]
    return [f"{text}: enough for a claim."]


def _tested(report: Report) -> list[str]:
    """What is claimed by, and what was corrected for."""
    claimed = [pair for pair in report.comparisons if report.primary in (None, pair.metric)]
    tested = [pair for pair in claimed if pair.verdict != "too few"]
    if not tested:
        return []
    among = tested[0].among
    if report.primary:
        return [
            f"Claims are by {title(report.primary)} alone, which was named, after Holm's correction for {among}"
            f" comparison{'s' if among > 1 else ''}; by other scores differences are suggested at most."
        ]
    metrics = len(dict.fromkeys(pair.metric for pair in tested))
    return [
        f"No primary score was named (--primary): claims are corrected for all {among} comparisons, by {metrics}"
        f" score{'s' if metrics > 1 else ''}, which takes larger differences."
    ]


def _power(report: Report) -> list[str]:
    """Of the primary score, or of evaluations, by the comparison in the middle."""
    sentences: list[str] = []
    metrics = dict.fromkeys(pair.metric for pair in report.comparisons)
    for metric in [report.primary] if report.primary else [name for name in metrics if name.startswith("eval/")]:
        pairs = [pair for pair in report.comparisons if pair.metric == metric and pair.findable == pair.findable]
        if pairs:
            middle = sorted(pairs, key=lambda pair: pair.findable)[len(pairs) // 2]
            of = f" ({len(pairs)} comparisons, the one in the middle)" if len(pairs) > 1 else ""
            sentences.append(
                f"With these seeds a difference in {title(metric)} of {middle.findable:.3f} would be found with 80 %"
                f" chance{of}; smaller ones are likely to be missed."
            )
    return sentences


def _open(report: Report) -> list[str]:
    still = [pair for pair in report.comparisons if pair.verdict == "open"]
    sentences = _listed([pair for pair in still if report.primary in (None, pair.metric)])
    if few := sum(pair.verdict == "too few" for pair in report.comparisons):
        sentences.append(f"{few} difference{'s are' if few > 1 else ' is'} of too few seeds: see the table.")
    if any(pair.verdict.startswith("suggests") for pair in report.comparisons):
        sentences.append(
            "What is only suggested could be chance among so many comparisons: one in twenty of equal groups looks so."
        )
    return sentences


def _left_out(report: Report) -> list[str]:
    sentences: list[str] = []
    for group in report.groups:
        out = [run for run in group.runs if run.folder not in report.included]
        if out and len(sentences) < LONGEST:
            listed = ", ".join(report.names[run.folder] for run in out[:5]) + (" and others" if len(out) > 5 else "")
            sentences.append(
                f"{group.label}: {len(out)} of {len(group.runs)} runs are left out of the statistics ({listed}; why"
                " stands under odd runs). If runs end because of their setting, what is left flatters it."
            )
    return sentences


def _many(report: Report) -> list[str]:
    sentences: list[str] = []
    if len(report.shown) < len(report.groups):
        sentences.append(
            f"Pictures and comparisons show {len(report.shown)} of {len(report.groups)} groups, those that score"
            " highest; the best of many owes part of its score to chance. Run the chosen ones again, with new seeds."
        )
    return sentences


def _unlike(report: Report) -> list[str]:
    sentences: list[str] = []
    kept = [run for run in report.runs if run.folder in report.included]
    lengths = sorted({run.rollouts for run in kept})
    if len(lengths) > 1:
        sentences.append(
            f"Runs learnt from {lengths[0]} to {lengths[-1]} rollouts: their final scores are not of equal effort."
        )
    apart = [key for key in report.settings if key.startswith(JUDGED_BY)]
    if apart:
        sentences.append(
            f"Groups differ in how they are judged ({', '.join(apart[:3])}{' and others' if len(apart) > 3 else ''}):"
            " their scores are not of the same problems."
        )
    unknown = sum(not run.config for run in report.runs)
    if unknown:
        sentences.append(
            f"{unknown} run{'s have' if unknown > 1 else ' has'} no config.yaml: whether task and model are those of"
            " the others is unknown, and each is a group of its own."
        )
    for metric in dict.fromkeys(score.metric for score in report.scores):
        without = sum(metric not in run.metrics for run in kept)
        if without:
            sentences.append(f"{_capital(title(metric))} is of {len(kept) - without} runs; {without} did not log it.")
    return sentences + (_problems(kept) if any(score.metric.startswith("eval/") for score in report.scores) else [])


def _silent(report: Report) -> list[str]:
    names = ", ".join(title_of(metric) for metric in report.silent)
    return [f"Not drawn, as it is the same in all runs, all the time: {names}."] if names else []


def _problems(runs: list[Run]) -> list[str]:
    """What runs were judged on: in earlier ones the test problems followed the seed."""
    drawn = [run.config.get("task.test_seed", run.config.get(FOLLOWED["task.test_seed"])) for run in runs if run.config]
    count = len(set(drawn))
    if count < 2:
        return ["Intervals are over seeds, on the same held-out problems; other problems are not in them."]
    return [
        f"Runs were judged on {count} draws of held-out problems, by task.test_seed, which was task.seed in earlier"
        " runs: intervals hold the draw of problems too, and only runs of one draw were asked the same."
    ]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text.startswith(("entropy", "reward")) else text
