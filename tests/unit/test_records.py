import errno
import fcntl
import json
import os
import resource
import zlib
from contextlib import closing, suppress
from pathlib import Path

import faults
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ladder.core.errors import InputError
from ladder.storage import samples
from ladder.storage.journal import Journal, journals_of


def fill(path, count=3):
    journal = Journal(path)
    for i in range(count):
        journal.append({"key": f"k{i}", "samples_us": [1.0, i]})
    journal.close()


def read(path):
    with closing(Journal(path)) as journal:
        return dict(journal)


def test_a_second_run_waits_and_finds_what_the_first_measured(tmp_path, capfd, monkeypatch):
    first, flock = Journal(tmp_path / "j"), fcntl.flock

    def waits(file, operation):
        if operation == fcntl.LOCK_EX:  # it would block until the first run is done
            with pytest.raises(BlockingIOError):
                flock(file, operation | fcntl.LOCK_NB)
            first.append({"key": "k"})
            first.close()
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", waits)
    assert set(read(tmp_path / "j")) == {"k"}
    assert "Waiting: another run is measuring into" in capfd.readouterr().err


@pytest.mark.parametrize("room", [0, 1, 30])
def test_a_full_disk_is_told_and_what_was_written_is_kept(tmp_path, room):
    """A limit on the size of files stands for the disk: the system refuses what is beyond it, and
    takes a part if that fits.
    """
    path = tmp_path / "j"
    fill(path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    journal = Journal(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, before[1]))
    try:
        with pytest.raises(
            InputError, match=r"j: cannot be written: .*; what is finished is kept; "
        ):
            journal.append({"key": "k9", "samples_us": [1.0] * 50})
        with pytest.raises(InputError, match=r"s\.parquet: cannot be written"):
            samples.write(
                tmp_path / "s.parquet", [{"key": "k", "reason": str(os.urandom(9000))}], {}
            )
        journal.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert set(read(path)) == {"k0", "k1", "k2"}
    assert {p.name for p in tmp_path.iterdir()} == {"j"}  # no half of a file, and no litter


def test_a_read_only_folder_is_told(monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match=r"j: cannot be written: Read-only file system"):
        Journal(tmp_path / "j")


def test_a_parquet_file_that_rotted_is_told(tmp_path):
    """Any byte that changes is noticed, or changes nothing that is read."""
    path = tmp_path / "s.parquet"
    samples.write(
        path,
        [{"key": str(i), "samples_us": [1.5 * i, 2.5], "time": "t"} for i in range(20)],
        {"commit": "abc"},
    )
    data, rows = path.read_bytes(), samples.read(path)
    for at in range(0, len(data), 23):
        path.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
        with suppress(InputError):
            assert samples.read(path) == rows, at
    for cut in range(0, len(data), 97):
        path.write_bytes(data[:cut])
        with pytest.raises(
            InputError, match=rf"s\.parquet: not a Parquet file .*{faults.MACHINE['rotten'].reason}"
        ):
            samples.read(path)


def test_every_cut_through_the_last_line_loses_that_line_only(tmp_path):
    fill(tmp_path / "whole")
    assert read(tmp_path / "whole")["k2"] == {"key": "k2", "samples_us": [1.0, 2]}
    data = (tmp_path / "whole").read_bytes()
    last = data[:-1].rindex(b"\n") + 1
    for cut in range(last, len(data)):
        path = tmp_path / "cut"
        path.write_bytes(data[:cut])
        journal = Journal(path)
        assert set(journal) == {"k0", "k1"}
        journal.append({"key": "k9"})
        journal.close()
        assert set(read(path)) == {"k0", "k1", "k9"}
        path.unlink()


def test_a_journal_is_opened_without_its_records(tmp_path, monkeypatch):
    """However long it is: what is measured is told by its keys."""
    fill(tmp_path / "j")
    monkeypatch.setattr("json.loads", lambda text: pytest.fail("a record was read"))
    with closing(Journal(tmp_path / "j")) as journal:
        assert "k1" in journal
        assert "k9" not in journal


def test_damage_in_the_middle_is_told_and_nothing_is_dropped(tmp_path):
    path = tmp_path / "j"
    fill(path)
    data = path.read_bytes()
    for spoiled in (data.replace(b"k1", b"kX"), data.replace(b"\n", b"\nnonsense\n", 1)):
        path.write_bytes(spoiled)
        with pytest.raises(
            InputError, match=r"j: line 2: damaged; expected a checksum and a record"
        ):
            Journal(path)
        assert path.read_bytes() == spoiled


def test_parquet_keeps_the_samples_and_the_session(tmp_path):
    path, row = tmp_path / "s.parquet", {"kernel": "k", "samples_us": [1.25, 2.5], "key": "x"}
    samples.write(path, [row, {**row, "samples_us": None}], {"commit": "abc"})
    rows, session = samples.read(path)
    assert session == {"commit": "abc"}
    assert [row["samples_us"] for row in rows] == [[1.25, 2.5], None]
    assert rows[0]["power_w"] is None
    # published data are hundreds of such files, and the Arrow schema alone would take as much again
    assert path.stat().st_size < 7000


OLD_ROWS = samples.BATCH + 1


def write_old(path, schema):
    """A file of an older program: with other columns, and a checksum of its rows as JSON."""
    row = {"key": "x", "samples_us": [1.0], "padding": 3, "offset": 0}
    table = pa.Table.from_pylist([row] * OLD_ROWS, schema=schema)
    text = json.dumps([table.to_pylist(), {"commit": "abc"}])
    metadata = {"session": '{"commit": "abc"}', "checksum": f"{zlib.crc32(text.encode()):08x}"}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def test_samples_outlive_the_columns_added_since(tmp_path):
    since = ("race", "energy_j", "padding", "offset")
    old = pa.schema([field for field in samples.SCHEMA if field.name not in since])
    write_old(tmp_path / "old.parquet", old)
    (row, *_, last), session = samples.read(tmp_path / "old.parquet")
    assert (last, session) == (row, {"commit": "abc"})
    assert (row["samples_us"], row["race"], row["energy_j"]) == ([1.0], None, None)
    write_old(tmp_path / "other.parquet", pa.schema([*old, pa.field("race", pa.string())]))
    with pytest.raises(InputError, match="expected the columns"):
        samples.read(tmp_path / "other.parquet")


def test_numbers_of_a_b_and_c_are_text_and_single_ones_are_what_older_files_have(tmp_path):
    path, row = tmp_path / "new.parquet", {"key": "x", "samples_us": [], "offset": 0}
    samples.write(path, [row | {"padding": "1,4,2"}, row | {"padding": 3}], {})
    rows, _ = samples.read(path)
    assert [(row["padding"], row["offset"]) for row in rows] == [("1,4,2", 0), (3, 0)]
    old = samples.SCHEMA
    for name in samples.THREES:
        old = old.set(old.get_field_index(name), pa.field(name, pa.int32()))
    write_old(path, old)
    (row, *_), _ = samples.read(path)
    assert (row["padding"], row["offset"]) == (3, 0)


@pytest.mark.parametrize("foreign", ["3", "[]", "{}", '{"key": 1}', "[" * 9999])
def test_a_journal_line_that_is_whole_and_not_ours_is_damaged(tmp_path, foreign):
    (tmp_path / "a.journal").write_text(f"{zlib.crc32(foreign.encode()):08x} {foreign}\n")
    with pytest.raises(
        InputError, match=r"a\.journal: line 1: damaged; expected a checksum and a record"
    ):
        Journal(tmp_path / "a.journal")


def test_a_folder_of_samples_is_read_whole_by_others(tmp_path):
    """By pandas, which takes every file there for one of Parquet."""
    output = tmp_path / "samples" / "a.float32.parquet"
    output.parent.mkdir()
    journal = Journal(journals_of(output) / "a.float32.journal")
    journal.append({"key": "k"})
    journal.close()
    samples.write(output, [{"key": "k", "kernel": "a"}], {})
    assert pd.read_parquet(output.parent)["kernel"].tolist() == ["a"]
    assert journals_of(tmp_path / "confirmed.parquet") == journals_of(output)
