"""The pages and the claims say what the committed data say."""

import json
import re

import pytest
from ladder.analysis.dataset import Dataset
from ladder.claims import judge, report
from ladder.cli import publish
from ladder.core.files import ROOT
from ladder.figures import main_loops, precisions
from ladder.storage.published_index import HEADLINE, featured

from book import count_loops, data_dictionary, loops, pages


def test_the_claims_are_what_the_data_say(of_published):
    assert judge.claimed(of_published) == judge.read_published(ROOT), (
        "results/published/claims.json is stale: .venv/bin/python -m book"
    )


def test_no_published_claim_fails(of_published):
    """Else `snakemake reproduce` would fail for everybody. Later data may refute what earlier ones
    claim: that is counted.
    """
    assert [report.failure(entry) for entry in report.failed(of_published)] == []


@pytest.mark.parametrize(
    "document", pages.DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT))
)
def test_a_page_is_filled_from_the_data(document, request):
    text = document.read_text()
    filled = pages.fill(text, request.getfixturevalue("story"))
    assert filled == text, f"{document.name} is stale: .venv/bin/python -m book"


def test_the_main_loops_are_those_that_the_compiler_makes(story):
    committed = json.loads((ROOT / loops.COUNTS).read_text())["loops"]
    assert count_loops.count(story) == committed, (
        "results/published/main-loops.json is stale: .venv/bin/python -m book.count_loops"
    )


def test_the_figures_of_the_pages_are_current(story, tmp_path):
    slots = main_loops.write(loops.of_main_line(story), tmp_path / "slots.svg")
    energy = precisions.write(story.precisions(), tmp_path / "precisions.svg")
    for drawn, committed in ((slots, main_loops.DRAWING), (energy, precisions.DRAWING)):
        assert drawn.read_bytes() == committed.read_bytes(), (
            f"docs/img/{committed.name} is stale: .venv/bin/python -m book"
        )


def test_the_data_dictionary_page_is_current():
    assert (ROOT / "docs" / "data.md").read_text() == data_dictionary.page()


def test_gains_compare_kernels_of_one_precision():
    (table,) = re.findall(
        r"<!-- table: gains cuda -->.*?<!-- end -->",
        (pages.LADDER / "results.md").read_text(),
        re.DOTALL,
    )
    assert "`20_tensor_cores`" not in table
    assert "`21_tensor_split`" in table


def test_the_page_of_the_container_has_the_measured_sizes(published):
    facts, page = (
        json.loads((published / "robustness" / "image.json").read_text()),
        (ROOT / "docs" / "container.md").read_text(),
    )
    # parts of other parts
    inside = {name: facts["parts"][name] for name in ("cuBLASLt", "bytecode")}
    parts = [size for name, size in facts["parts"].items() if name not in inside]
    sizes = [*parts, facts["base"], facts["unpacked"] - facts["base"] - sum(parts)]
    assert sorted(int(size) for size in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)) == sorted(
        sizes
    )
    expected = [f"{facts[name] / 1000:.2f} GB" for name in ("unpacked", "archive")]
    expected += [
        f"{facts['files']:,} files",
        f"{facts['packages']} packages",
        *(f"{s} s" for s in facts["build_seconds"]),
    ]
    assert [it for it in (*expected, *map(str, inside.values())) if it not in page] == []
    assert (facts["files_that_differ"], facts["layers_that_differ"]) == ([], 0)


def test_the_example_of_the_data_dictionary_prints_each_rung_once(
    opened, published, tmp_path, monkeypatch, capsys
):
    """And what the tables have: the ratios to cuBLAS at 4096."""
    tables = publish.tabulate(
        Dataset.open(featured(published)[HEADLINE]), tmp_path / "results" / "redrawn" / HEADLINE
    )
    monkeypatch.chdir(tmp_path)
    (example,) = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "data.md").read_text(), re.DOTALL
    )
    exec(example, {})
    printed = {
        name: list(map(float, rest))
        for name, *rest in map(str.split, capsys.readouterr().out.splitlines()[2:])
    }
    best = tables["best"]
    best = best[
        (best["problem"].astype(str) == "4096")
        & (best["state"] == "warm")
        & (best["element_type"] == "float32")
    ]
    assert len(best) == len(printed) > 18
    for row in best.to_dict("records"):
        assert printed[row["kernel"]] == [
            pytest.approx(100 * row[name], abs=0.06)
            for name in ("ratio", "ratio_low", "ratio_high")
        ]
