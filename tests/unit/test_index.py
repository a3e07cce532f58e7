"""What the page of results is made of; tests/browser looks at what it does."""

import json
import re

import pandas as pd
import pytest
import synthetic
from ladder.analysis.dataset import Dataset
from ladder.core.errors import InputError
from ladder.core.places import HOME
from ladder.figures import explorer
from ladder.figures.data import MARKS
from ladder.model.kernel_file import discover

KERNELS = ("05_register_tile", "20_tensor_cores", "cublas")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "nvidia-a"
    written = synthetic.write(folder, problems=synthetic.SMALL, kernels=KERNELS, processes=3)
    dataset = Dataset.open(written, discover(HOME).values())
    return dataset.best, dataset.environment


def rows_in(text):
    """The rows in a file of the page, by column."""
    table = json.loads(text[text.index("{") : text.rindex("}") + 1])
    return pd.DataFrame(table["rows"], columns=table["head"])


def sections_of(page):
    return json.loads(re.search("const SECTIONS = (.*);", page)[1])


@pytest.mark.parametrize(("kind", "factor"), [("cuda", 1), ("cpu", 1000)])
def test_files_have_what_best_says_and_are_the_same_for_the_same_data(made, kind, factor):
    best, environment = made[0], made[1] | {"kind": kind}
    reason = "wrong <b>" + 60 * "x"
    best = best.assign(reason=[reason, *best["reason"].iloc[1:]])
    page, data = explorer.files("A & B", {"nvidia-a": (best, environment)}).values()
    again = explorer.files("A & B", {"nvidia-a": (best, environment)})
    assert again == {"index.html": page, "index_files/0-0.js": data}
    assert "<title>A &amp; B</title>" in page
    assert page.count("</script>") == 1
    key = ["kernel", "problem", "state"]
    shown = rows_in(data).set_index(key).sort_index()
    given = best.astype({"problem": str}).set_index(key).sort_index()
    assert list(shown.index) == list(given.index)
    assert reason in set(shown["reason"])
    unit = "TFLOP/s" if kind == "cuda" else "GFLOP/s"
    percent = shown["% of baseline"].to_numpy(dtype=float)
    assert percent == pytest.approx(100 * given["ratio"].to_numpy(), rel=1e-5, nan_ok=True)
    rates = shown[unit].to_numpy(dtype=float)
    assert rates == pytest.approx(factor * given["tflops"].to_numpy(), rel=1e-5, nan_ok=True)


@pytest.mark.parametrize("problems", [100, 1000])
def test_the_page_does_not_grow_with_the_problems_and_no_file_with_all_of_them(made, problems):
    best = pd.concat([made[0].iloc[:2]] * problems, ignore_index=True)
    sizes = best.index // 2 + 1
    best = best.assign(
        m=sizes, n=sizes, k=sizes, problem=sizes.astype(str), kernel=["a", "b"] * problems
    )
    best = best.assign(tflops=1.0, ratio=1.0, state="warm")
    page, *data = explorer.files("x", {"a": (pd.concat([best] * 5), made[1])}).values()
    assert len(page) < 27_000
    assert [len(rows_in(text)) for text in data] == [min(10 * problems, 2000)] * max(
        problems // 200, 1
    )


def test_an_overview_has_means_and_not_all_kernels(made):
    row = made[0].iloc[[0]].assign(state="warm", element_type="float32")
    best = pd.concat(
        [
            row.assign(kernel=f"k{kernel}", problem=problem, ratio=(kernel + 1) * factor)
            for kernel in range(50)
            for problem, factor in (("a", 1), ("b", 4))
        ]
    )
    page = explorer.files("x", {"a": (best, made[1])})["index.html"]
    ((section),) = sections_of(page)
    assert len(section["rows"]) == 40
    assert section["rows"][0] == ["k49", pytest.approx(1e4), 5000, 20000, "float32", "warm", 2]


def test_a_section_begins_with_a_finding_about_kernels_that_round_nothing(made):
    row = made[0].iloc[[0]].assign(precision=None, reference="cublas")
    kernels = [
        row.assign(
            kernel=kernel,
            ratio=ratio,
            ratio_low=ratio - 0.02,
            ratio_high=ratio + 0.02,
            precision=precision,
        )
        for kernel, ratio, precision in (("a", 1.2, None), ("c", 9.0, "tf32"), ("cublas", 5, None))
    ]
    (section,) = sections_of(
        explorer.files("x", {"a": (pd.concat(kernels), made[1])})["index.html"]
    )
    assert section["finding"] == (
        "float32, warm: kernels are distinguishably faster than cublas on 1 of 1 problems. The "
        "highest: a, 120 ± 2 % at 256."
    )
    assert [row[0] for row in section["rows"]] == ["cublas", "a", "c"]


def test_claims_begin_with_what_was_reproduced():
    states = ("not reproduced", "nothing", "reproduced")
    claims = [{"id": state, "says": state, "state": state} for state in states]
    (section,) = sections_of(explorer.files("x", {}, claims)["index.html"])
    assert section["finding"] == "1 reproduced, 1 not reproduced, 1 nothing."
    assert section["rows"][0][0] == "reproduced"


def test_every_flag_and_state_is_explained():
    text = explorer.TEMPLATE.read_text()
    words = dict(re.findall('"([^"]+)": "([^"]+)"', text[text.index("const WORDS") :]))
    assert {*MARKS, "warm", "cold", "sustained"} <= set(words)


def test_claims_that_are_none_are_named(tmp_path):
    path = tmp_path / "claims.json"
    path.write_text('[{"id": "a", "says": "b", "state": "reproduced"}]')
    page = explorer.files("x", {}, explorer.read_claims(path))["index.html"]
    assert "1 reproduced." in page
    for text in ("{", "{}", '[{"id": "a"}]', "[1]"):
        path.write_text(text)
        with pytest.raises(
            InputError,
            match=r"claims\.json: .*expected judged claims\. Where .* remove it and run again",
        ):
            explorer.read_claims(path)
