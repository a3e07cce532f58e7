"""The index of the published datasets and the folders must agree, and each error names the key to
change.
"""

import json
import shutil

import pytest
import synthetic
from ladder.core.errors import InputError
from ladder.storage import published_index
from ladder.storage.published_index import HEADLINE
from planted import written

OTHER = "nvidia-a/mine"


@pytest.fixture
def published(tmp_path):
    """Two runs of the headline's device and campaign, and one of another."""
    for name in (f"{HEADLINE}/2", f"{HEADLINE}/1", f"{OTHER}/1"):
        written(
            tmp_path / name / "environment.json",
            json.dumps({"device": name.split("/")[0], "kind": "cuda"}),
        )
    synthetic.index(tmp_path)
    return tmp_path


def test_the_featured_run_comes_first(published):
    assert list(published_index.runs(published)) == [f"{HEADLINE}/1", f"{HEADLINE}/2", f"{OTHER}/1"]
    index = published_index.read(published)
    index[HEADLINE]["featured"] = "2"
    published_index.write(published, index)
    assert list(published_index.runs(published)) == [f"{HEADLINE}/2", f"{HEADLINE}/1", f"{OTHER}/1"]
    assert published_index.featured(published) == {
        HEADLINE: published / HEADLINE / "2",
        OTHER: published / OTHER / "1",
    }


def test_nothing_is_published_at_first(tmp_path):
    assert published_index.runs(tmp_path) == {}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "    '2': made up\n",
            "",
            rf"index\.yaml: {HEADLINE}/2: missing; expected why .*/{HEADLINE}/2/ is kept",
        ),
        (
            "    '2': made up",
            "    '2': ''",
            rf'index\.yaml: {HEADLINE}\.runs\.2: got ""; expected why the run is kept',
        ),
        (
            "    '2': made up",
            "    '3': made up",
            rf"index\.yaml: {HEADLINE}/3: got no such dataset; expected .*/3/environment\.json",
        ),
        (
            f"{HEADLINE}:\n  featured: '1'",
            f"{HEADLINE}:\n  featured: '3'",
            rf"{HEADLINE}\.featured: got 3; expected one of 1, 2",
        ),
        (
            f"{HEADLINE}:\n  featured: '1'",
            f"{HEADLINE}:\n  featured: ['1', '2']",
            rf"{HEADLINE}\.featured: .*; expected the name of one run",
        ),
        (
            f"{HEADLINE}:\n",
            f"{HEADLINE}:\n  not_from_lock: {{'3': numpy 1 (lock 2)}}\n",
            rf"{HEADLINE}\.not_from_lock: got 3; expected one of 1, 2",
        ),
        (
            f"{HEADLINE}:\n",
            f"{HEADLINE}:\n  featured: '2'\n",
            r"index\.yaml: not valid YAML: .*the key featured is given twice",
        ),
    ],
    ids=["missing", "no reason", "extra", "unknown", "two", "packages", "twice"],
)
def test_what_is_wrong_with_the_index_is_named(published, old, new, message):
    path = published / published_index.INDEX
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        published_index.runs(published)


def test_folders_without_an_index_are_named(published):
    (published / published_index.INDEX).unlink()
    shutil.rmtree(published / HEADLINE)
    with pytest.raises(InputError, match=rf"index\.yaml: {OTHER}/1: missing; expected why"):
        published_index.read(published)


def test_a_run_is_named_by_its_time_and_gpu():
    environment = {
        "time": "2026-11-25T09:38:22+00:00",
        "attributes": {"uuid": "GPU-5dee03ff-2a9f-8e77-ad15-8f2e57df1677"},
    }
    assert published_index.run_name(environment) == "2026-11-25T0938-5dee"
    assert (
        published_index.run_name(environment | {"attributes": {"uuid": None}}) == "2026-11-25T0938"
    )


def test_the_kernels_of_a_dataset_are_those_that_were_compiled_in_an_element_type(published):
    """Whether a sweep is published with it or not."""
    rows = "kernel,element_type\n03_a,float32\n03_a,float64\n99_gone,float32\n"
    folders = list(published_index.featured(published).values())
    written(folders[0] / "resources.csv", rows)
    assert published_index.kernel_ids(folders) == ["cuda/03_a", "cuda/99_gone"]
    assert published_index.kernel_ids(folders, ["float64"]) == ["cuda/03_a"]
