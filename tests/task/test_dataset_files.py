import json

import pytest

from isentropic.task.dataset_files import column, from_file


def test_each_kind_of_file_gives_the_same_rows(tmp_path):
    rows = [{"q": "one, or more?", "a": "1"}, {"q": "two?", "a": "2"}]
    (tmp_path / "a.jsonl").write_text("\n\n".join(map(json.dumps, rows)))
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "a.csv").write_text('q,a\n"one, or more?",1\ntwo?,2\n')
    for kind in ("jsonl", "json", "csv"):
        assert [row for _, row in from_file("x", tmp_path / f"a.{kind}", "null")] == rows
    assert [place for place, _ in from_file("x", tmp_path / "a.jsonl", "null")] == ["line 1", "line 3"]


def test_parquet_keeps_its_nested_columns(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="parquet is read by pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"prompt": [{"role": "user", "content": "one?"}], "reward_model": {"ground_truth": "1"}}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert list(from_file("x", tmp_path / "a.parquet", "null")) == [("row 1", rows[0])]


def test_parquet_of_single_precision_is_read_as_it_is_written(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="parquet is read by pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(
        pyarrow.table({"q": ["one?"] * 3, "a": pyarrow.array([0.1, None, 7.0], "float32")}), tmp_path / "a.parquet"
    )
    assert [row["a"] for _, row in from_file("x", tmp_path / "a.parquet", "null")] == [0.1, None, 7.0]


def test_what_is_no_such_file_is_said(tmp_path):
    (tmp_path / "a.parquet").write_text("no parquet")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ValueError, match=r"x is not a file; give the path of one, or null"):
        list(from_file("x", tmp_path / "b.json", "null"))
    with pytest.raises(ValueError, match=r"x does not end in \.jsonl, \.json, \.csv or \.parquet"):
        list(from_file("x", tmp_path / "a.txt", "null"))
    pytest.importorskip("pyarrow", reason="parquet is read by pyarrow")
    with pytest.raises(ValueError, match="x is not parquet"):
        list(from_file("x", tmp_path / "a.parquet", "null"))


ROW = '{"q": "one?", "a": "1"}\n'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", ROW + "{broken\n", "line 2 of x is no JSON record: Expecting property name"),
        ("a.jsonl", '{"q": "one?", "a": "1", "a": "2"}\n', "line 1 of x is no JSON record: a stands twice"),
        ("a.jsonl", ROW + '{"q": ' + "7" * 5000 + "}", "line 2 of x is no JSON record: an integer of 5000 digits"),
        ("a.json", "[" + "7" * 5000 + "]", "x is not json in UTF-8: an integer of 5000 digits, which must be a text"),
        ("a.jsonl", ROW + "[" * 200_000, "line 2 of x is no JSON record: .*recursion"),
        ("a.jsonl", '{"q": "\\ud800", "a": "1"}\n', "line 1 of x is no JSON record: .* surrogates not allowed"),
        ("a.json", '{"data": []}', "x holds one record, where a list of records must be"),
        ("a.json", "3", "x holds a number, where a list of records must be"),
        ("a.json", "", "x is not json in UTF-8"),
        ("a.json", '[{"q": 1, "q": 2}]', "x has a record in which q stands twice"),
        ("a.csv", "q,a\none?,1\ntwo, or more?,2\n", "line 3 of x has 3 values for 2 columns; a value with a comma"),
        ("a.csv", "q,a,a\none?,1,2\n", "x has the column a twice; rename one of them"),
        ("a.csv", b"q,a\ncaf\xe9,1\n", "x is not csv in UTF-8"),
        ("a.jsonl", ROW.encode("utf-16"), "x is not jsonl in UTF-8"),
        ("a.jsonl.gz", b"", r"x does not end in \.jsonl"),
    ],
)
def test_what_is_no_table_is_said_with_its_line(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        list(from_file("x", tmp_path / name, "null"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", "\ufeff" + ROW),
        ("a.json", "\ufeff[" + ROW + "]"),
        ("a.csv", "\ufeffq,a\r\none?,1\r\n"),
        ("a.csv", "q,a\rone?,1\r"),
    ],
)
def test_a_byte_order_mark_and_other_ends_of_lines_are_no_part_of_a_row(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode())
    assert [row for _, row in from_file("x", tmp_path / name, "null")] == [{"q": "one?", "a": "1"}]


def test_what_unicode_calls_a_line_ends_no_row(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"q": "one\u2028two\u2029three\x85?", "a": "1"}\n', encoding="utf-8")
    (tmp_path / "a.csv").write_text(f"q,a\none\u2028two?,{'1' * 200_000}\n", encoding="utf-8")
    assert [row["q"] for _, row in from_file("x", tmp_path / "a.jsonl", "null")] == ["one\u2028two\u2029three\x85?"]
    assert [row["q"] for _, row in from_file("x", tmp_path / "a.csv", "null")] == ["one\u2028two?"]


def test_not_a_number_is_a_missing_value():
    for value in (None, float("nan")):
        with pytest.raises(ValueError, match=r"row 17 of x lacks a; its columns are q, a"):
            column({"q": "one?", "a": value}, "a", "row 17 of x", "task.answer")


def test_a_parquet_file_with_a_column_twice_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="parquet is read by pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = [pyarrow.array(["one?"]), pyarrow.array(["1"]), pyarrow.array(["2"])]
    parquet.write_table(pyarrow.Table.from_arrays(columns, names=["q", "a", "a"]), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="x has the column a twice"):
        list(from_file("x", tmp_path / "a.parquet", "null"))
