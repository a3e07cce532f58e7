"""The data dictionary says of every column of every file what it is, and nothing else."""

import pandas as pd
import pyarrow.parquet as pq
import pytest
import synthetic
from columns import fits
from ladder.analysis.compare import flat
from ladder.analysis.dataset import Dataset
from ladder.core.places import HOME
from ladder.measuring import counters
from ladder.model.kernel_file import discover
from ladder.storage import columns, csv_files, samples
from ladder.storage.dataset_layout import PUBLISHED, read_environment


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A made-up dataset with all that is made of it, as CSV."""
    folder = synthetic.write(
        tmp_path_factory.mktemp("data") / "nvidia-a", problems=synthetic.SMALL, processes=3
    )
    for name, table in Dataset.open(folder, discover(HOME).values()).tables().items():
        csv_files.write_csv(table, folder / f"{name}.csv")
    return folder


def names(table):
    return [column.name for column in columns.tables()[table].columns]


def test_tables_have_the_columns_of_the_dictionary(folder):
    files = {path.stem: path for path in folder.glob("*.csv")}
    assert files.keys() == columns.tables().keys() - {"samples", "counters", "repeat"}
    for name, path in files.items():
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        assert list(table.columns) == names(name)
        assert len(table)
        for column in columns.tables()[name].columns:
            assert fits(table[column.name], column.type), column
    best = pd.read_csv(files["best"]).groupby("state")["bits"].unique()
    assert best["warm"].tolist() == ["same: every launch, rows"]
    assert best[["cold", "sustained"]].explode().isna().all()


def test_a_parquet_file_has_the_columns_and_types_of_the_dictionary(folder):
    path = folder / "confirmed.parquet"
    schema = pq.read_schema(path)
    assert schema.names == names("samples")
    for column in columns.tables()["samples"].columns:
        assert schema.field(column.name).type == columns.TYPES[column.type]
    assert samples.read(path)[0][0]["kernel"]  # and is read as before


def test_counters_have_the_columns_of_the_dictionary():
    assert names("counters") == counters.COLUMNS


def test_every_key_of_a_published_environment_is_in_it():
    known = [column.name for column in columns.environment()]
    for path in (HOME / PUBLISHED).rglob("environment.json"):
        for key in flat(read_environment(path)):
            assert key in known or any(
                name.endswith("*") and key.startswith(name[:-1]) for name in known
            ), (path, key)


def test_there_is_no_entry_without_a_column():
    data = columns.load(columns.SOURCE.read_text(), "data.yaml")
    assert set(data["columns"]) == {name for table in columns.tables() for name in names(table)}
