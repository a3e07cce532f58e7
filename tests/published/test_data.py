"""The committed data are whole, and the tables, figures and answers made from them are the ones
committed.
"""

import hashlib
import math
import re

import pandas as pd
import power
import pyarrow.parquet as pq
import pytest
import yaml
from columns import fits
from ladder.analysis import repeatability
from ladder.claims import evidence, judge
from ladder.claims.definitions import NOTHING
from ladder.cli import publish
from ladder.core.places import HOME
from ladder.figures import explorer
from ladder.model.hardware_limits import peak_tflops
from ladder.storage import columns, samples
from ladder.storage.dataset_layout import read_environment
from ladder.storage.published_index import HEADLINE, WITHDRAWN, featured, run_name


def test_every_file_has_its_checksum(published):
    for name in featured(published):
        publish.check_data(published / name)


def test_a_folder_says_what_was_measured_when_and_where(opened, datasets):
    for name, folder in datasets.items():
        dataset = opened(folder)
        device, _, run = name.split("/")
        assert (dataset.environment["device"], run_name(dataset.environment)) == (device, run)
        uuid = dataset.environment["attributes"].get("uuid") or device  # a CPU has none
        assert set(dataset.confirmed["uuid"]) == {uuid}


def test_a_repeat_keeps_only_what_the_limits_are_made_from(published, datasets):
    for folder in set(datasets.values()) - set(featured(published).values()):
        assert sorted(path.name for path in folder.iterdir()) == [
            "confirmed.parquet",
            "environment.json",
            "resources.csv",
        ]


def test_a_run_of_all_rungs_measures_every_claim(published, datasets):
    """As `reproduce` does, which has all problems, kernels and states of the claims."""
    data = evidence.of_samples(datasets[f"{HEADLINE}/{featured(published)[HEADLINE].name}"])
    states = {entry["id"]: entry["state"] for entry in judge.held_against(HOME, data)}
    assert [id for id, state in states.items() if state == NOTHING] == []


def test_withdrawn_runs_are_gone_and_name_the_commit_that_removed_them(published, datasets):
    withdrawn = yaml.safe_load((published / WITHDRAWN).read_text())
    assert not set(withdrawn) & set(datasets)
    for name, why in withdrawn.items():
        assert re.fullmatch(r"[a-z0-9-]+/[a-z0-9-]+/\d{4}-\d\d-\d\dT\d{4}(-[0-9a-f]{4})?", name)
        assert re.fullmatch(r".+; removed by [0-9a-f]{8}\.", why), name


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_picture_on_a_page_is_the_one_that_is_drawn(published):
    """`snakemake published` draws them again."""
    pictures = [path.relative_to(published.resolve()) for path in sorted(publish.pictures(HOME))]
    assert pictures
    for picture in pictures:
        drawn = publish.read_sums(published.joinpath(*picture.parts[:2]))[
            f"../../../redrawn/{picture}"
        ]
        assert sha256(published / picture) == drawn, picture


@pytest.mark.parametrize(
    "make", [repeatability.contents, power.contents], ids=["repeat", "false_positives"]
)
def test_the_tables_of_repeats_are_current(published, make):
    """After a dataset is published, run `ladder repeat` and `studies/power.py false_positives`."""
    made = make(published)
    assert made
    assert {path: path.read_bytes() for path in made} == made


def test_every_parquet_file_keeps_to_the_dictionary(published):
    paths = sorted(published.rglob("*.parquet"))
    assert len(paths) > 80
    for path in paths:
        assert [field for field in pq.read_schema(path) if not samples.is_known(field)] == [], path


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("resources", "**/resources.csv"),
        ("counters", "**/counters.csv"),
        ("repeat", "repeat-*.csv"),
    ],
)
def test_every_csv_file_keeps_to_the_dictionary(published, name, pattern):
    types = {column.name: column.type for column in columns.tables()[name].columns}
    for path in published.glob(pattern):
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        for column in table:
            assert column in types, path
            assert fits(table[column], types[column]), (path, column)


def test_the_explorer_holds_every_featured_dataset(opened, published):
    given = {
        name: (opened(folder).best, opened(folder).environment)
        for name, folder in featured(published).items()
    }
    made = explorer.files("x", given, explorer.read_claims(published / "claims.json"))
    assert max(map(len, made.values())) < 1_000_000
    assert all(f'"title": "{name}"' in made["index.html"] for name in given)


def test_confirmations_include_all_that_repeats_cannot_distinguish(published):
    """The default campaign, which is of float32, confirms every candidate within the repeat limit
    of the best.
    """
    within = yaml.safe_load((HOME / "config" / "config.yaml").read_text())["confirm"]["within"]
    for path in published.glob("repeat-*.csv"):
        limits = pd.read_csv(path).query("state == 'warm' and element_type == 'float32'")
        assert 1 - math.exp(-limits["repeat_limit"].max()) <= within


def test_every_measured_peak_is_what_the_clock_allows(datasets):
    shares = {}
    for name, folder in datasets.items():
        environment = read_environment(folder / "environment.json")
        if environment["kind"] == "cuda":
            shares[name] = environment["peaks"]["fp32_tflops"] / peak_tflops(environment)
    assert len(shares) > 1
    assert all(0.985 < share < 1 for share in shares.values()), shares
