"""Which test problems does training hold? `isentropic contamination train=dapo_math_17k test=[aime24,math500]`

train, test    names of sets (configs/task/set), files, or several of them in [a,b]; train also a run's folder, and
               test also an evaluation's, whose score is then told with and without the problems that training holds
question       the column of a file that holds the question; else question, problem or prompt
out            a file for all of it as JSON
paths.data     the folder in which sets lie as files

Exact is equal but for spaces and signs; wrapped is whole within a longer training problem; near is half of a problem's
runs of 8 words in one training problem, or all of it where it is shorter.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from isentropic.config.build import BadInput, bad_input, build
from isentropic.config.compose import CONFIGS, compose, loader_of
from isentropic.config.entry import one_sentence, read_environment
from isentropic.config.trained import trained_on
from isentropic.runs import files
from isentropic.task.dataset_files import KINDS

if TYPE_CHECKING:
    from isentropic.evaluation.sets import Sheet

OWN = ("train", "test", "question", "out")
COLUMNS = ("question", "problem", "prompt")
HINT = "isentropic contamination train=dapo_math_17k test=aime24,math500 says what is asked for"


@dataclass(frozen=True)
class Found:
    """Questions by set; of evaluations also their answers."""

    questions: dict[str, list[str]]
    sheets: "list[Sheet]"

    def add(self, name: str, place: str, questions: list[str]) -> None:
        """With the place where another has the name. Raises BadInput where there are none."""
        if not questions:
            raise BadInput(f"{place} is empty; it must hold at least one problem")
        self.questions[f"{name} of {place}" if name in self.questions else name] = questions


def main(arguments: Sequence[str]) -> None:
    read_environment()
    try:
        with one_sentence():
            told(arguments)
    except SystemExit as stopped:
        raise SystemExit(2 if stopped.code == 1 else stopped.code) from None


def told(arguments: Sequence[str]) -> None:
    """Raises BadInput for sets and files that are not there or cannot be read."""
    given = {key: value for key, _, value in (one.partition("=") for one in arguments) if key in OWN}
    further = [one for one in arguments if one.partition("=")[0] not in OWN]
    for key in OWN[:2]:
        if not given.get(key):
            raise BadInput(f"{key} has no value; {HINT}")
    if out := given.get("out"):
        with bad_input("out"):
            files.check_replaceable(Path(out), ("train", "limits", "sets"))
    places = {key: [one.strip("'\" ") for one in given[key].strip("[]'\"").split(",")] for key in OWN[:2]}
    cfg = composed(places, further)
    from isentropic.evaluation.contamination import lines, report, seen, without

    train, test = (read(cfg, key, places[key], given.get("question")) for key in OWN[:2])
    with bad_input():
        found = seen((one for questions in train.questions.values() for one in questions), test.questions)
        scores = {sheet.set: without(sheet, found[sheet.set].any) for sheet in test.sheets}
        made = {"train": list(train.questions)} | report(found, test.sheets)
    count = sum(map(len, train.questions.values()))
    print("\n".join([f"{count} training problems of {', '.join(train.questions)}", "", *lines(found, scores)]))
    if out:
        files.write_whole(Path(out), json.dumps(made, indent=1, allow_nan=False) + "\n")


def composed(places: Mapping[str, Sequence[str]], further: Sequence[str]) -> DictConfig:
    """The sets that are named, with the settings given for them. Raises BadInput for a name that is no set."""
    loader = loader_of(CONFIGS)
    there = loader.get_group_options("task/set")
    chosen: list[str] = []
    for key, names in places.items():
        absent = [name for name in names if not Path(name).expanduser().exists()]
        if gone := next((name for name in absent if name.endswith(KINDS)), None):
            raise BadInput(f"{key}={gone} is not a file; give the path of one, or the name of a data set on the hub")
        sets = [name for name in absent if not Path(name).suffix]
        for name in sets:
            if name not in there:
                raise BadInput(f"{key}={name} is neither a file nor a set; the sets are {', '.join(sorted(there))}")
        chosen.append(f"task/set@{key}=[{','.join(sets)}]")
    return compose(loader, "contamination", [*chosen, *further, "paths.output=."])


def read(cfg: DictConfig, key: str, places: Sequence[str], column: str | None) -> Found:
    """Of each place: a folder of a run or an evaluation, a file, or a set."""
    from isentropic.evaluation.sets import read as sheets_of

    found = Found({}, [])
    for place in dict.fromkeys(places):
        path = Path(place).expanduser()
        if (path / files.PROBLEMS).is_file():
            with bad_input(f"{key}={place}"):
                sheets = sheets_of(path)
            if again := next((sheet.set for sheet in sheets if sheet.set in found.questions), None):
                raise BadInput(f"{key}={place} has the set {again} once more; give evaluations of it one at a time")
            found.sheets.extend(sheets)
            found.questions.update({sheet.set: [one.question for one in sheet.problems] for sheet in sheets})
        elif (path / files.CONFIG).is_file():
            names, prompts = trained_on(path)
            if not names:
                raise BadInput(f"{key}={place}: its task makes up its problems, so there is no set to compare with")
            found.add("+".join(names), place, prompts)
        elif path.exists() or path.suffix:
            with bad_input(f"{key}={place}"):
                name = f"{path.parent.name}/{path.name}" if path.is_file() else path.name
                found.add(name, place, list(of_file(key, place, column)))
        else:
            found.add(place, place, of_set(cfg, key, place))
    return found


def of_file(key: str, place: str, column: str | None) -> Iterator[str]:
    from isentropic.task.chats import asked
    from isentropic.task.dataset_files import column as value_of
    from isentropic.task.dataset_files import from_place
    from isentropic.task.overlap import told as told_in

    for where, row in from_place(f"{key}={place}", place, None, ""):
        name = column or next((one for one in COLUMNS if isinstance(row, dict) and one in row), COLUMNS[0])
        question, before = asked(value_of(row, name, f"{where} of {place}", "question"), where)
        yield told_in(question, before) if key == "train" else question


def of_set(cfg: DictConfig, key: str, name: str) -> list[str]:
    from isentropic.task.overlap import told as told_in

    one: Any = build(cfg, f"{key}.{name}")
    with bad_input():
        rows = one.read(f"{key}.{name}")
        return [told_in(row.question, row.before) if key == "train" else row.question for row in rows]


if __name__ == "__main__":
    main(sys.argv[1:])
