"""Rows of a data set, from a file or from the hub, each with where it stands."""

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

KINDS = (".jsonl", ".json", ".csv", ".parquet")
QUOTED = "a value with a comma must stand in quotation marks"
LONGEST = 10**9  # characters of a value of a .csv
Placed = tuple[str, Any]  # where a row stands, as one would say it, and what it holds


def from_place(source: str, path: str, subset: str | None, split: str) -> Iterator[Placed]:
    """Rows of a file, of all files in a folder and below, in the order of their names, or of a set on the hub.

    Of a folder, what begins with a point is not read: copies and caches of editors and of the hub.

    Raises ValueError, with the setting's name, for a folder without such files and for what cannot be read.
    """
    place = place_of(source, path)
    if place.is_dir():
        files = sorted(file for file in place.rglob("*") if file.suffix in KINDS and is_shown(file, place))
        if not files:
            raise ValueError(f"{source} is a folder without any {', '.join(KINDS[:-1])} or {KINDS[-1]} file")
        for file in files:
            name = file.relative_to(place).as_posix()
            for where, row in from_file(f"{source}/{name}", file, ""):
                yield f"{where} of {name}", row
    elif path.endswith(KINDS) or place.exists():
        yield from from_file(source, place, "the name of a data set on the hub")
    else:
        yield from from_hub(source, path, subset, split)


def place_of(source: str, path: str) -> Path:
    """Where a path leads. Raises ValueError for an empty one, and for one that the system does not know how to read."""
    if not path.strip():
        raise ValueError(f"{source} names nothing; give a file, or what else it may be")
    try:
        place = Path(path).expanduser()
        place.exists()
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{source:.120} is no path that can be read: {reason}") from error
    return place


def is_shown(file: Path, folder: Path) -> bool:
    """Whether it is a file, and neither it nor a folder that it is in is hidden."""
    return file.is_file() and not any(part.startswith(".") for part in file.relative_to(folder).parts)


def column(row: Any, path: str | Sequence[str], place: str, key: str, null: bool = False) -> Any:
    """The value of a column, nested by dots. Raises ValueError where the row has none; `key` is the setting's.

    Of several names it has none. `null`: the column must be there, and may be empty.
    """
    if not isinstance(path, str):
        if isinstance(row, Mapping):
            names = ", ".join(map(str, cast(Mapping[str, Any], row)))
            raise ValueError(f"{place} lacks {' and '.join(path)}; its columns are {names}; {key} names another")
        path = path[0]
    value = row
    for name in [path] if isinstance(row, Mapping) and path in row else path.split("."):
        if not isinstance(value, Mapping):
            what = f"is {value!r:.60}" if value is row else f"has {value!r:.60} where {name} of {path} would be"
            raise ValueError(f"{place} {what}; it must be a record with the column {path} of {key}")
        record = cast(Mapping[str, Any], value)
        if is_missing(record.get(name)) and not (null and name in record):
            raise ValueError(
                f"{place} lacks {path}; its columns are {', '.join(map(str, record))}; {key} names another"
            )
        value = record[name]
    return value


def is_missing(value: Any) -> bool:
    """None, or the not-a-number that tables have in its place."""
    return value is None or (isinstance(value, float) and value != value)


def has_column(row: Any, path: str) -> bool:
    """Whether `column` finds something at `path`."""
    try:
        column(row, path, "", "")
    except ValueError:
        return False
    return True


def from_file(source: str, path: Path, otherwise: str) -> Iterator[Placed]:
    """Rows of a .jsonl, .json, .csv or .parquet file, nested columns included.

    Raises ValueError where it is not there, not of its kind, or of none of these; `source` is how the user named it and
    `otherwise` what they may give in place of a file.
    """
    if not path.is_file():
        raise ValueError(f"{source} is not a file; give the path of one, or {otherwise}")
    if path.suffix not in KINDS:
        raise ValueError(f"{source} does not end in {', '.join(KINDS[:-1])} or {KINDS[-1]}; convert it to one of these")
    if path.suffix == ".parquet":
        yield from from_parquet(source, path)
        return
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            yield from READERS[path.suffix](source, lines)
    except (json.JSONDecodeError, csv.Error, UnicodeError, RecursionError) as error:
        raise ValueError(f"{source} is not {path.suffix[1:]} in UTF-8: {error}") from error


def from_jsonl(source: str, lines: TextIO) -> Iterator[Placed]:
    """A record a line. Raises ValueError, with the line, for what is none."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield f"line {number}", record_in(line)
            except (json.JSONDecodeError, UnicodeError, RecursionError, Twice) as error:
                raise ValueError(f"line {number} of {source} is no JSON record: {error}") from error


def from_json(source: str, lines: TextIO) -> Iterator[Placed]:
    """A list of records. Raises ValueError for anything else."""
    try:
        found = record_in(lines.read())
    except Twice as error:
        raise ValueError(f"{source} has a record in which {error}") from error
    if not isinstance(found, list):
        raise ValueError(f"{source} holds {article(found)}, where a list of records must be; or give a .jsonl file")
    for number, record in enumerate(cast(list[Any], found), 1):
        yield f"item {number}", record


def from_csv(source: str, lines: TextIO) -> Iterator[Placed]:
    """A record a row. Raises ValueError, with the line, for more values than columns, and for a column named twice."""
    csv.field_size_limit(LONGEST)
    records = csv.DictReader(lines)
    check_once(records.fieldnames or [], source)
    for record in records:
        place = f"line {records.line_num}"
        if None in record:
            columns = len(record) - 1
            given = columns + len(record[None])  # pyright: ignore[reportArgumentType]
            raise ValueError(f"{place} of {source} has {given} values for {columns} columns; {QUOTED}")
        yield place, record


class Twice(ValueError):
    """A name that stands twice where it may once."""


def record_in(text: str) -> Any:
    """The value of a JSON text. Raises Twice, UnicodeError or JSONDecodeError."""
    found = json.loads(text, object_pairs_hook=once, parse_int=whole)
    if "\\ud" in text.lower():  # half of a pair of surrogates is no text
        json.dumps(found, ensure_ascii=False).encode()
    return found


def whole(text: str) -> int:
    """An integer. Raises JSONDecodeError for one of more digits than Python reads."""
    try:
        return int(text)
    except ValueError as error:
        raise json.JSONDecodeError(f"an integer of {len(text)} digits, which must be a text", text, 0) from error


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A record of pairs. Raises Twice for a name that comes again."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise Twice(f"{twice} stands twice")
    return made


def check_once(names: Sequence[str], source: str) -> None:
    """Raises ValueError for a column that is there twice."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{source} has the column {twice[0]} twice; rename one of them")


def article(value: Any) -> str:
    """What a JSON value is, for messages."""
    kinds = {dict: "one record", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


READERS = {".jsonl": from_jsonl, ".json": from_json, ".csv": from_csv}


def from_parquet(source: str, path: Path) -> Iterator[Placed]:
    """Rows with their numbers, a batch at a time. Raises ValueError without pyarrow, or for another kind of file."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ValueError(f"{source} is read by the package pyarrow; install it or give another kind of file") from error
    try:
        number, file = 0, ParquetFile(path)
        check_once(file.schema_arrow.names, source)
        for batch in file.iter_batches():
            for record in as_written(batch).to_pylist():
                number += 1
                yield f"row {number}", record
    except ArrowException as error:
        raise ValueError(f"{source} is not parquet: {error}") from error


def as_written(batch: Any) -> Any:
    """With 0.1 of single precision as 0.1, which Python would read as 0.10000000149011612."""
    for place, kind in enumerate(batch.schema.types):
        if str(kind) == "float":
            batch = batch.set_column(
                place, batch.schema.names[place], batch.column(place).cast("string").cast("double")
            )
    return batch


def from_hub(source: str, name: str, subset: str | None, split: str) -> Iterator[Placed]:
    """Raises ValueError where the package `datasets` is missing or the hub does not give it."""
    try:
        from datasets import load_dataset  # pyright: ignore
    except ImportError as error:
        raise ValueError(
            f"{source} reads {name} from the hub, which needs the package datasets; install it or give a file"
        ) from error
    try:
        records = load_dataset(name, subset, split=split)  # pyright: ignore
    except Exception as error:  # whatever the network, the cache or the library comes up with
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{source} reads {name} from the hub, which failed ({reason}); give a file") from error
    for number, record in enumerate(records, 1):  # pyright: ignore
        yield f"row {number}", record
