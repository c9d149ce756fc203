"""Looks for the best settings of any run, one trial after another, and stops trials that fall behind.

isentropic tune logs/tune experiment=quickstart algorithm=stare algorithm.credit.stare.boost=1.5..8 \\
    algorithm.control.target=0.05..0.25 trainer.val_check_interval=26 seed=100

key=low..high is searched evenly, key=log:low..high by orders of magnitude, over whole numbers where both ends are;
key=a,b,c are choices; the rest goes to every trial. A trial is `isentropic train` in a folder of its own,
judged on the validation split as often as trainer.val_check_interval says. It is stopped when its best value so far is
under the median of the others after as many rollouts. The same command goes on with a search that was stopped.
"""

import argparse
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isentropic.commands.search_space import Choices, Range, given, parse, table, values_of
from isentropic.config.refused import refuse
from isentropic.runs import files
from isentropic.runs.metrics import metrics_files
from isentropic.runs.status import ASKS, alive, heard, read_status

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial

EACH = ("rollout.evaluation.split=validation", "ckpt_path=last")
POLL, GRACE = 0.5, 60.0  # seconds between two looks at a trial, and that a stopped one has to end
FAILURES = 3  # in a row, after which a search ends


@dataclass(frozen=True)
class Search:
    folder: Path
    fixed: list[str]
    spaces: list[Range | Choices]
    metric: str  # a column of metrics.csv, whose last value is to be high
    trials: int  # that came to their end or were stopped
    startup: int  # of these, before any is stopped


def study_of(search: Search) -> "Study":
    """The one in the folder, or a new one. Raises ValueError for one of other settings."""
    import optuna
    from optuna.storages.journal import JournalFileBackend, JournalStorage
    from optuna.trial import TrialState

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    search.folder.mkdir(parents=True, exist_ok=True)
    study = optuna.create_study(
        storage=JournalStorage(JournalFileBackend(str(search.folder / "study.journal"))),
        study_name="tune",
        direction="maximize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=search.startup),
    )
    study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))  # a search that goes on draws anew
    spaces = {space.key: {k: v for k, v in asdict(space).items() if k != "key"} for space in search.spaces}
    asked = {"overrides": search.fixed, "spaces": spaces, "metric": search.metric}
    for name, value in asked.items():
        if study.user_attrs.get(name, value) != value:
            kept = study.user_attrs[name]
            raise ValueError(f"{search.folder} holds a search with {name} {kept}, not {value}; name another folder")
        study.set_user_attr(name, value)
    for trial in study.get_trials(states=(TrialState.RUNNING,)):  # its search was stopped; it goes on in its folder
        status = read_status(search.folder / place(trial))
        if status and alive(search.folder / place(trial), status):
            raise ValueError(
                f"trial {trial.number} of {search.folder} still runs, in process {status.pid}; wait, or stop it"
            )
        study.tell(trial.number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params, user_attrs={"folder": place(trial)})
    return study


def place(trial: "Trial | FrozenTrial") -> str:
    return str(trial.user_attrs.get("folder", trial.number))


def search_on(search: Search, study: "Study") -> None:
    failures = 0
    while sum(trial.state.name in ("COMPLETE", "PRUNED") for trial in study.trials) < search.trials:
        failures = 0 if run(search, study) else failures + 1
        if failures == FAILURES:
            raise ValueError(f"{FAILURES} trials in a row failed; the reasons stand above")


def run(search: Search, study: "Study") -> bool:
    """One trial; whether it came to its end or was stopped. Raises ValueError if none like it could ever begin."""
    from optuna.trial import TrialState

    trial = study.ask()
    for space in search.spaces:
        space.draw(trial)
    settings, folder = given(trial.params), search.folder / place(trial)
    print(f"trial {trial.number}: {shlex.join(settings)}", flush=True)
    status, behind = follow(search, trial, folder, [*search.fixed, *settings])
    values = [value for _, value in values_of(folder, search.metric)]
    if behind or (status == 0 and values):
        study.tell(trial, None if behind else values[-1], TrialState.PRUNED if behind else TrialState.COMPLETE)
        print(f"trial {trial.number}: {search.metric} {values[-1]:.4g}{', stopped' if behind else ''}", flush=True)
        return True
    study.tell(trial, state=TrialState.FAIL)
    record, log = read_status(folder), folder / files.LOG
    printed = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it printed nothing"]
    said = (record.error if record else None) or printed[-1].removeprefix("error: ")
    if status == 0:
        raise ValueError(
            f"{folder / files.METRICS} has no values of {search.metric}; --metric must be a column of it that reports "
            "read"
        )
    if not metrics_files(folder):
        raise ValueError(f"trial {trial.number} could not begin ({said}); see {log}")
    print(f"trial {trial.number} failed ({said}); see {log}", flush=True)
    return False


def follow(search: Search, trial: "Trial", folder: Path, overrides: list[str]) -> tuple[int, bool]:
    """Runs a trial to its end, or until it falls behind: exit code, and whether it did."""
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "isentropic.train", *overrides, *EACH, f"hydra.run.dir='{folder}'"]
    with (folder / files.LOG).open("a", encoding="utf-8") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        seen, behind, running = 0, False, True  # before the first rollout all are alike
        try:
            while running and not behind:
                running = process.poll() is None  # before the look: what comes last is looked at too
                seen, behind = look(search, trial, folder, seen)
                if running and not behind:
                    wait(process, POLL)
        finally:
            end(process)
    return process.returncode, behind


def look(search: Search, trial: "Trial", folder: Path, seen: int) -> tuple[int, bool]:
    """Tells the study what is new since step `seen`: the last step, and whether the trial has fallen behind."""
    for step, value in values_of(folder, search.metric):
        if step > seen:
            seen = step
            trial.report(value, step)
            if trial.should_prune():
                return seen, True
    return seen, False


def wait(process: "subprocess.Popen[Any]", seconds: float) -> bool:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def end(process: "subprocess.Popen[Any]") -> None:
    """A run ends by itself on the first signal, and is killed if it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        if not wait(process, GRACE):
            process.kill()
            process.wait()


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="isentropic tune",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="of the search: its journal, and one folder per trial")
    parser.add_argument("overrides", nargs="+", help="as of isentropic train, some of them ranges or choices")
    parser.add_argument("--trials", type=int, default=20, help="in all, those that fail not counted (%(default)s)")
    parser.add_argument("--metric", default="eval/avg@8", help="column of metrics.csv to raise (%(default)s)")
    parser.add_argument("--startup", type=int, default=4, help="trials before any is stopped early (%(default)s)")
    asked = parser.parse_intermixed_args(arguments)
    for number in heard(*ASKS):
        signal.signal(number, signal.default_int_handler)
    try:
        fixed, spaces = parse(asked.overrides)
        search = Search(asked.folder.resolve(), fixed, spaces, asked.metric, asked.trials, asked.startup)
        study = study_of(search)
        search_on(search, study)
        last = {place(trial): trial for trial in study.trials}  # of those that went on
        print(table(last.values(), fixed, [space.key for space in spaces], asked.metric))
    except ImportError:
        refuse("optuna is not installed; pip install -e .[tune]")
    except ValueError as error:
        refuse(error)
    except KeyboardInterrupt:
        print(f"stopped; the same command goes on with {asked.folder}", file=sys.stderr, flush=True)
        raise SystemExit(130) from None


if __name__ == "__main__":
    main(sys.argv[1:])
