import json

import pytest

from isentropic.task.dataset_files import from_file


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
