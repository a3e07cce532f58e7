"""The files that describe the project agree with each other, and are what the catalog asks for."""

import json
import re
import tomllib

import yaml
from ladder.core.files import ROOT


def test_the_metadata_files_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    codemeta = json.loads((ROOT / "codemeta.json").read_text())
    comment, _, text = (ROOT / "CITATION.cff").read_text().partition("\n")
    citation = yaml.safe_load(text)
    assert codemeta["version"] == citation["version"] == project["version"]
    assert codemeta["description"] == project["description"]
    assert codemeta["license"].rpartition("/")[2] == citation["license"] == project["license"]
    assert codemeta["keywords"] == citation["keywords"]
    names, cited = (
        [author["name"] for author in given["authors"]]
        for given in ({"authors": codemeta["author"]}, citation)
    )
    assert names == cited
    said = comment + codemeta["creativeWorkStatus"]
    missing = (
        "repository-code",
        "date-released",
        "doi",
        "codeRepository",
        "datePublished",
        "identifier",
        "authors",
    )
    assert [name for name in missing if not re.search(rf"\b{name}\b", said)] == []
    assert set(missing) & set(citation) == {"authors"}
    license_of_data = (ROOT / "results" / "published" / "LICENSE.md").read_text()
    assert license_of_data.count("CC-BY-4.0") == 1


def test_the_workflow_is_as_the_catalog_asks():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    contained = "container:" in (ROOT / "workflow" / "Snakefile").read_text()
    asked = {"conda": False, "apptainer": contained, "report": True}
    assert usage["software-stack-deployment"].items() >= asked.items()
    for name in (
        "README.md",
        "LICENSE",
        "config/README.md",
        "config/config.yaml",
        "workflow/Snakefile",
        "Snakefile",
    ):
        assert (ROOT / name).exists(), name
