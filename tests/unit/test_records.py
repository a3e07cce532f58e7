import pytest
from ladder import records
from ladder.records import Journal
from ladder.units import InputError


def fill(path, count=3):
    journal = Journal(path)
    for i in range(count):
        journal.append({"key": f"k{i}", "samples_us": [1.0, i]})
    journal.close()


def read(path):
    journal = Journal(path)
    journal.close()
    return journal.records


def test_a_journal_is_read_back(tmp_path):
    fill(tmp_path / "j")
    assert read(tmp_path / "j")["k2"] == {"key": "k2", "samples_us": [1.0, 2]}


def test_one_run_at_a_time(tmp_path):
    first = Journal(tmp_path / "j")
    with pytest.raises(InputError, match="another run is measuring into it"):
        Journal(tmp_path / "j")
    first.close()
    Journal(tmp_path / "j").close()


def test_every_cut_through_the_last_line_loses_that_line_only(tmp_path):
    fill(tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    last = data[:-1].rindex(b"\n") + 1
    for cut in range(last, len(data)):
        path = tmp_path / "cut"
        path.write_bytes(data[:cut])
        journal = Journal(path)
        assert set(journal.records) == {"k0", "k1"}
        journal.append({"key": "k9"})
        journal.close()
        assert set(read(path)) == {"k0", "k1", "k9"}
        path.unlink()


def test_damage_in_the_middle_is_told_and_nothing_is_dropped(tmp_path):
    path = tmp_path / "j"
    fill(path)
    data = path.read_bytes()
    for spoiled in (data.replace(b"k1", b"kX"), data.replace(b"\n", b"\nnonsense\n", 1)):
        path.write_bytes(spoiled)
        with pytest.raises(InputError, match=r"j: line 2: damaged; expected a checksum and a record"):
            Journal(path)
        assert path.read_bytes() == spoiled


def test_parquet_keeps_the_samples_and_the_session(tmp_path):
    row = {
        "device": "d",
        "kernel": "k",
        "m": 3,
        "samples_us": [1.25, 2.5],
        "reference_us": [1.0, 2.0],
        "key": "x",
        "status": "correct",
    }
    records.write(tmp_path / "s.parquet", [row, {**row, "samples_us": None}], {"commit": "abc"})
    rows, session = records.read(tmp_path / "s.parquet")
    assert session == {"commit": "abc"}
    assert rows[0]["samples_us"] == [1.25, 2.5]
    assert rows[1]["samples_us"] is None
    assert rows[0]["power_w"] is None


def test_a_file_that_is_not_ours_is_named(tmp_path):
    (tmp_path / "s.parquet").write_bytes(b"PAR1 not")
    with pytest.raises(InputError, match=r"s\.parquet: not a Parquet file"):
        records.read(tmp_path / "s.parquet")


def test_samples_outlive_the_columns_added_since(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    old = pa.schema([field for field in records.SCHEMA if field.name not in ("race", "energy_j")])
    pq.write_table(pa.Table.from_pylist([{"key": "x", "samples_us": [1.0]}], schema=old), tmp_path / "old.parquet")
    (row,), _ = records.read(tmp_path / "old.parquet")
    assert (row["samples_us"], row["race"], row["energy_j"]) == ([1.0], None, None)
    other = pa.schema([*old, pa.field("race", pa.string())])
    pq.write_table(pa.Table.from_pylist([{"key": "x", "samples_us": [1.0]}], schema=other), tmp_path / "other.parquet")
    with pytest.raises(InputError, match="expected the columns"):
        records.read(tmp_path / "other.parquet")
