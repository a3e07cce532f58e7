"""The files that describe the project agree with each other, and the artifact appendix with the claims and the commands."""

import json
import re
import tomllib

import yaml
from ladder.claims import definitions
from ladder.core.files import ROOT
from ladder.model.kernel_file import discover

TEENS = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")


def test_the_metadata_files_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    codemeta, citation = json.loads((ROOT / "codemeta.json").read_text()), yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert codemeta["version"] == citation["version"] == project["version"]
    assert codemeta["description"] == project["description"]
    assert codemeta["license"].rpartition("/")[2] == citation["license"] == project["license"]
    assert codemeta["keywords"] == citation["keywords"]
    assert [each["name"] for each in codemeta["author"]] == [each["name"] for each in citation["authors"]]
    text = (ROOT / "CITATION.cff").read_text().splitlines()[0] + codemeta["creativeWorkStatus"]
    for missing in ("repository-code", "date-released", "doi", "codeRepository", "datePublished", "identifier", "authors"):
        assert re.search(rf"\b{missing}\b", text), missing
        assert missing == "authors" or missing not in citation
    assert (ROOT / "results" / "published" / "LICENSE.md").read_text().count("CC-BY-4.0") == 1


def test_the_readme_says_how_many_kernels_there_are():
    rungs = [kernel for kernel in discover(ROOT).values() if kernel.name < "60"]  # not examples, nor a reader's own
    types = [kernel.element_types for kernel in rungs if kernel.kind == "cuda"]
    single, half = (TEENS[sum(name in those for those in types) - 10] for name in ("float32", "bfloat16"))
    text = (ROOT / "README.md").read_text()
    assert f"{single} float32 and {half} 16-bit CUDA kernels" in text
    assert "four CPU kernels" in text
    assert len(rungs) - len(types) == 4


def test_the_appendix_has_every_claim():
    text = (ROOT / "docs" / "artifact.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")]
    claims = sorted(claim.id for claim in definitions.read(ROOT))
    assert sorted(id for row in rows for id in re.findall("`([^`]+)`", row[0])) == claims
    assert all(len(row) == 4 and all(row) for row in rows)
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert link.startswith("https://") or (ROOT / "docs" / link).exists(), link


def test_the_workflow_is_as_the_catalogue_asks():
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage["software-stack-deployment"]["apptainer"] is ("container:" in (ROOT / "workflow" / "Snakefile").read_text())
    assert usage["software-stack-deployment"]["conda"] is False
    assert usage["software-stack-deployment"]["report"] is True
    for name in ("README.md", "LICENSE", "config/README.md", "config/config.yaml", "workflow/Snakefile", "Snakefile"):
        assert (ROOT / name).exists(), name
