"""The report's captions: every figure has one of its own that says how to read it."""

import re
from types import SimpleNamespace

import pytest
from docutils.core import publish_parts
from jinja2 import Environment, StrictUndefined
from ladder.core.places import HOME
from ladder.figures import draw

CAPTIONS = HOME / "workflow" / "report"


def caption(figure):
    text = Environment(undefined=StrictUndefined).from_string(
        (CAPTIONS / "figures.rst").read_text()
    )
    return text.render(snakemake=SimpleNamespace(wildcards=SimpleNamespace(figure=figure)))


DRAWN = [*draw.FIGURES, "parameters-05_register_tile"]


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_has_a_caption_of_its_own(name):
    text = caption(f"{name}-warm")
    assert len(text.split("State ``")[0].strip()) > 100
    assert text != caption(f"{next(other for other in DRAWN if other != name)}-warm")
    assert caption(f"{name}-float64-warm") == text
    # a warning of reStructuredText would be seen in the report
    settings = {"report_level": 2, "halt_level": 2}
    assert "warm" in publish_parts(text, writer="html", settings_overrides=settings)["body"]


def test_the_report_keeps_datasets_apart():
    """What is published and what was measured here are never under one heading."""
    rules = "".join(path.read_text() for path in (HOME / "workflow" / "rules").glob("*.smk"))
    made = [re.findall(r'category="(.*)"', part)[:2] for part in rules.split("report(\n")[1:]]
    assert len(made) >= 7
    assert {category for category, _ in made} == {"{dataset}"}
    assert {of_which for _, of_which in made} == {"{device}", "compared"}


def test_every_caption_that_a_rule_names_is_there_and_no_other():
    workflow = HOME / "workflow"
    files = [workflow / "Snakefile", *(workflow / "rules").glob("*.smk")]
    rules = "".join(path.read_text() for path in files)
    named = set(re.findall(r"report/(\w+\.rst)", rules))
    assert named == {path.name for path in CAPTIONS.glob("*.rst")}
