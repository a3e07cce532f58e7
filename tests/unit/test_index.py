"""What the page to look around in is made of; tests/browser looks at what it does."""

import base64
import gzip
import json
import re
from functools import cache
from itertools import pairwise

import pandas as pd
import pytest
import synthetic
from ladder.analysis.dataset import Dataset
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.figures import explorer
from ladder.model.kernel_file import discover

KERNELS = ("01_naive_uncoalesced", "05_register_tile", "20_tensor_cores", "cublas", "cublas_tf32")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "nvidia-a"
    written = synthetic.write(folder, problems=synthetic.SMALL, kernels=KERNELS, processes=3)
    dataset = Dataset.open(written, discover(ROOT).values())
    return dataset.tables(), dataset.environment


@pytest.fixture(scope="module", autouse=True)
def bundled():
    """The page's library, which is always the same, is bundled once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            explorer.vl_convert, "javascript_bundle", cache(explorer.vl_convert.javascript_bundle)
        )
        patch.setattr(explorer, "charts", cache(explorer.charts))
        yield


def data(page):
    """What a page has been given."""
    (packed,) = re.findall(r'<script id="data" type="text/plain">(.*?)</script>', page)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def rows(columns):
    """The rows of a table as the page unpacks them."""
    lists = [
        [it["texts"][i] for i in it["places"]] if isinstance(it, dict) else it
        for it in columns.values()
    ]
    return [dict(zip(columns, values, strict=True)) for values in zip(*lists, strict=True)]


def test_rungs_have_distinct_colours_and_no_two_look_alike(made):
    best = pd.DataFrame(
        {"kernel": [f"{number:02}_rung" for number in range(40)], "precision": None}
    )
    many = list(explorer.looks([{"best": best}], [made[1]]).values())
    assert len({(look["colour"], look["shape"]) for look in many}) == len(many)
    assert {len({look["colour"] for look in many[place : place + 8]}) for place in range(33)} == {8}
    looks = explorer.looks([made[0]], [made[1]])
    assert list(looks) == [
        "01_naive_uncoalesced",
        "05_register_tile",
        "20_tensor_cores",
        "cublas",
        "cublas_tf32",
    ]
    assert [name for name, look in looks.items() if look["rung"]] == [
        "01_naive_uncoalesced",
        "05_register_tile",
    ]
    assert all(
        first["shape"] != second["shape"] for first, second in pairwise(list(looks.values()))
    )
    assert [name for name, look in looks.items() if look["dashed"]] == [
        "20_tensor_cores",
        "cublas_tf32",
    ]


def test_one_light_file_that_is_the_same_for_the_same_data(made):
    page = explorer.page("A & B", {"nvidia-a": made})
    assert page == explorer.page("A & B", {"nvidia-a": made})
    assert 500_000 < len(page.encode()) < 2_000_000
    assert "<title>A &amp; B</title>" in page
    assert page.count("</script>") == 3


def test_it_has_what_the_tables_say(made):
    best = made[0]["best"]
    (dataset,) = data(explorer.page("x", {"nvidia-a": made}))["datasets"]
    shown = rows(dataset["best"])
    assert len(shown) == len(best)
    for row, expected in zip(shown, best.to_dict("records"), strict=True):
        assert row["configuration"] == expected["configuration"]
        rate = 0 if expected["tflops"] != expected["tflops"] else expected["tflops"]
        assert (row["tflops"] or 0) == pytest.approx(rate, rel=1e-4)
    rung = next(row for row in shown if row["kernel"] == "05_register_tile" and row["tflops"])
    models = made[0]["models"]
    model = models[
        (models["kernel"] == "05_register_tile")
        & (models["configuration"] == rung["configuration"])
    ].iloc[0]
    assert (int(rung["registers"]), rung["occupancy"]) == (
        64,
        pytest.approx(model["occupancy"], rel=1e-4),
    )
    assert next(row for row in shown if row["kernel"] == "cublas")["registers"] is None
    assert sum(len(series["time_us"]) for series in dataset["samples"]) == len(made[0]["rounds"])


def test_of_a_dataset_without_models_or_energy_the_rest_is_shown(made):
    tables = dict(made[0])
    tables["models"] = tables["models"].head(0)
    tables["resources"] = tables["resources"][["kernel", "configuration", "element_type"]]
    tables["best"] = tables["best"].drop(columns=["energy_low_j", "energy_high_j", "tied_with"])
    (dataset,) = data(explorer.page("x", {"nvidia-a": (tables, made[1])}))["datasets"]
    key = ("05_register_tile", "4096", "warm")
    (row,) = (
        row for row in rows(dataset["best"]) if (row["kernel"], row["problem"], row["state"]) == key
    )
    assert row["tflops"] > 0
    assert (row["registers"], row["occupancy"], row["energy_low_j"]) == (None, None, None)


def test_a_page_that_would_be_too_heavy_goes_without_samples(made, monkeypatch):
    whole = explorer.page("x", {"nvidia-a": made})
    monkeypatch.setattr(explorer, "LIMIT_BYTES", len(whole.encode()))
    lighter = explorer.page("x", {"nvidia-a": made})
    assert len(lighter) < len(whole)
    assert (data(whole)["sampled"], data(lighter)["sampled"]) == (True, False)
    assert data(lighter)["datasets"][0]["samples"] == []


def test_claims_that_are_none_are_named(tmp_path):
    path = tmp_path / "claims.json"
    path.write_text('[{"id": "a", "says": "b", "state": "reproduced"}]')
    assert explorer.read_claims(path)[0]["id"] == "a"
    for text in ("{", "{}", '[{"id": "a"}]', "[1]"):
        path.write_text(text)
        with pytest.raises(
            InputError,
            match=r"claims\.json: .*expected judged claims\. Where .* remove it and run again",
        ):
            explorer.read_claims(path)
