"""The pages and the claims say what the committed data say."""

import json
import re

import pandas as pd
import pytest
from ladder.claims import judge, report
from ladder.cli import publish
from ladder.core.places import HOME
from ladder.figures import main_loops, precisions
from ladder.storage.published_index import HEADLINE, featured

from book import count_loops, data_dictionary, loops, pages, rungs, runs


def test_the_claims_are_what_the_data_say(of_published):
    assert judge.claimed(of_published) == judge.read_published(HOME), (
        "results/published/claims.json is stale: .venv/bin/python -m book"
    )


def test_no_published_claim_fails(of_published):
    """Else `snakemake reproduce` would fail for everybody. Later data may refute what earlier ones
    claim: that is counted.
    """
    assert [report.failure(entry) for entry in report.failed(of_published)] == []


@pytest.mark.parametrize(
    "document", pages.DOCUMENTS, ids=lambda document: str(document.relative_to(HOME))
)
def test_a_page_is_filled_from_the_data(document, request):
    text = document.read_text()
    filled = pages.fill(text, request.getfixturevalue("story"))
    assert filled == text, f"{document.name} is stale: .venv/bin/python -m book"


def test_the_linked_tables_are_current(story):
    for path, text in ({rungs.TABLE: rungs.table(story)} | runs.files(story)).items():
        assert text == path.read_text(), f"{path.name} is stale: .venv/bin/python -m book"


def test_the_main_loops_are_those_that_the_compiler_makes(story):
    """Of what has changed since they were counted, and of one rung of each kind."""
    committed = json.loads((HOME / loops.COUNTS).read_text())
    for kernel in ("05_", "30_"):
        (again,) = (name for name in committed["loops"] if name.startswith(kernel))
        del committed["made_of"][again]
    assert count_loops.count(story, committed)["loops"] == committed["loops"], (
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
    assert (HOME / "docs" / "data.md").read_text() == data_dictionary.page()


def test_the_page_of_the_container_has_the_measured_sizes(published):
    facts = json.loads((published / "robustness" / "image.json").read_text())
    page = (HOME / "docs" / "container.md").read_text()
    expected = [
        *(f"{facts[name] / 1000:.2f} GB" for name in ("unpacked", "archive")),
        f"{facts['files']:,} files",
        f"{facts['packages']} packages",
        *(f"{s} s" for s in facts["build_seconds"]),
    ]
    assert [text for text in expected if text not in page] == []
    assert (facts["files_that_differ"], facts["layers_that_differ"]) == ([], 0)


def test_the_example_of_the_data_dictionary_prints_the_ratios_of_each_rung(
    opened, published, tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "results" / "redrawn" / HEADLINE
    publish.draw(featured(published)[HEADLINE], folder, [])
    best = pd.read_csv(folder / "best.csv")
    monkeypatch.chdir(tmp_path)
    page = (HOME / "docs" / "data.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(example, {})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[2:]]
    printed = {name: list(map(float, rest)) for name, *rest in lines}
    best = best.astype({"problem": str})
    best = best.query("problem == '4096' and state == 'warm' and element_type == 'float32'")
    ratios = 100 * best.set_index("kernel")[["ratio", "ratio_low", "ratio_high"]]
    assert len(ratios) == len(printed) > 18
    for name, numbers in printed.items():
        assert numbers == pytest.approx(ratios.loc[name], abs=0.06)
