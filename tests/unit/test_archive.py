"""The archive holds the commit, the data and what is drawn from them, and its RO-Crate is one."""

import hashlib
import io
import json
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest
import requests
import rocrate
import synthetic
import yaml
from ladder import __main__ as command
from ladder import archive, claims, figures, publish
from ladder.environment import ROOT
from ladder.units import InputError
from rocrate.rocrate import ROCrate
from rocrate_validator import models, services

KERNELS = ("03_shared_tile", "05_register_tile", "cublas")
CONTEXT = Path(rocrate.__file__).parent / "data" / "ro-crate.jsonld"


def git(root, *arguments):
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", *identity, *arguments], cwd=root, check=True, capture_output=True)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small checkout with one published dataset, and what is drawn from it."""
    root = tmp_path_factory.mktemp("root")
    for name in ("codemeta.json", "README.md", "LICENSE", "workflow/Snakefile", ".ci/run"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    (root / ".gitignore").write_text("/results/*\n!/results/published/\n")
    (root / "README.md").write_text("# no pictures\n")
    patch = pytest.MonkeyPatch()
    patch.setattr(figures, "draw_all", lambda tables, environment, folder, *_: write(folder / "ladder-warm.svg", "a drawing"))
    synthetic.write(root / "results" / "x", device="nvidia-a", problems=synthetic.SMALL, kernels=KERNELS, processes=3)
    published = root / "results" / "published"
    publish.publish(root / "results" / "x", published)
    publish.draw(published / "nvidia-a", root / "results" / "redrawn" / "nvidia-a")
    patch.undo()
    (root / "results" / "redrawn" / "index.html").write_text("a page")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "all", "--date", "2026-01-02T03:04:05Z")
    return root


@pytest.fixture
def root(made, tmp_path):
    """A copy that may be changed."""
    shutil.copytree(made, tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture(scope="module")
def unpacked(made, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(archive.write(made, folder / "a.zip")) as file:
        file.extractall(folder / "a")
    return folder / "a"


def test_it_has_code_data_drawings_and_checksums(made, unpacked):
    done = subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=unpacked, check=False)
    assert done.returncode == 0
    found = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    listed = {line.split("  ")[1] for line in (unpacked / "SHA256SUMS").read_text().splitlines()}
    assert found - listed == {"SHA256SUMS", "ro-crate-metadata.json"}
    drawn = {f"results/redrawn/{name}" for name in ("nvidia-a/best.csv", "nvidia-a/figures/ladder-warm.svg", "index.html")}
    data = {
        f"results/published/nvidia-a/{name}"
        for name in ("confirmed.parquet", "SHA256SUMS", "samples/05_register_tile.float32.parquet")
    }
    assert {"workflow/Snakefile", *data, *drawn} <= listed
    assert not {name for name in listed if name.startswith("results/x/")}
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=made, capture_output=True, text=True, check=True).stdout
    assert (unpacked / "REVISION").read_text() == head
    publish.check_data(unpacked / "results" / "published" / "nvidia-a")
    publish.check_drawn(unpacked / "results" / "published" / "nvidia-a", unpacked / "results" / "redrawn" / "nvidia-a")


def test_the_same_commit_is_the_same_archive(made, tmp_path):
    one, other = (archive.write(made, tmp_path / name).read_bytes() for name in ("1.zip", "2.zip"))
    assert one == other


def test_its_crate_names_every_file_with_size_and_checksum(unpacked):
    crate = ROCrate(unpacked)
    files = {it.id: it for it in crate.data_entities if "File" in it.type}
    on_disk = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    assert set(files) == on_disk - {"ro-crate-metadata.json"}
    for name, it in files.items():
        data = (unpacked / name).read_bytes()
        assert (it["contentSize"], it["sha256"]) == (str(len(data)), hashlib.sha256(data).hexdigest())
    assert crate.mainEntity.id == "workflow/Snakefile"
    (dataset,) = [it for it in crate.data_entities if it.type == "Dataset"]
    assert dataset.id == "results/published/nvidia-a/"
    assert "NVIDIA Made Up" in dataset["description"]
    assert {"results/published/nvidia-a/environment.json", "results/redrawn/nvidia-a/best.csv"} <= {
        it.id for it in dataset["hasPart"]
    }
    assert dataset["license"].id == "https://spdx.org/licenses/CC-BY-4.0"


class Context(requests.adapters.HTTPAdapter):
    """Answers for the network: the context of RO-Crates, which the package `rocrate` brings, and nothing else."""

    def send(self, request, **_):
        assert request.url == "https://w3id.org/ro/crate/1.3/context"
        answer = requests.Response()
        answer.status_code, answer.url, answer.request = 200, request.url, request
        answer.headers["Content-Type"], answer.raw = "application/ld+json", io.BytesIO(CONTEXT.read_bytes())
        return answer


@pytest.fixture
def issues(monkeypatch):
    """What the validator of RO-Crates finds wrong with one."""

    def found(folder):
        monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", Context.send)
        settings = services.ValidationSettings(
            rocrate_uri=str(folder),
            profile_identifier="ro-crate-1.3",
            requirement_severity=models.Severity.REQUIRED,
            no_cache=True,
        )
        return [f"{it.check.identifier}: {it.message}" for it in services.validate(settings).get_issues()]

    return found


def test_its_crate_is_valid(unpacked, issues):
    assert issues(unpacked) == []


def test_the_validator_sees_what_is_wrong(unpacked, tmp_path, issues):
    shutil.copytree(unpacked, tmp_path / "a")
    path = tmp_path / "a" / "ro-crate-metadata.json"
    data = json.loads(path.read_text())
    del data["@graph"][1]["license"]
    path.write_text(json.dumps(data))
    (tmp_path / "a" / "LICENSE").unlink()
    found = "\n".join(issues(tmp_path / "a"))
    assert "license" in found
    assert "LICENSE" in found


def test_a_checkout_with_changes_makes_none(root, tmp_path):
    (root / "README.md").write_text("changed")
    with pytest.raises(InputError, match=r"M README\.md: not committed; expected a clean checkout"):
        archive.write(root, tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_what_is_not_drawn_or_drawn_otherwise_is_named(root, tmp_path):
    drawn = root / "results" / "redrawn" / "nvidia-a"
    (drawn / "best.csv").write_text("another")
    with pytest.raises(InputError, match=r"best\.csv is another"):
        archive.write(root, tmp_path / "a.zip")
    shutil.rmtree(drawn)
    with pytest.raises(InputError, match=r"nvidia-a: missing; expected what `\.venv/bin/snakemake --cores 1 published` draws"):
        archive.write(root, tmp_path / "a.zip")


def test_where_it_cannot_be_written_is_named(root, tmp_path):
    with pytest.raises(InputError, match=r"none/a\.zip: cannot be written: No such file or directory"):
        archive.write(root, tmp_path / "none" / "a.zip")


def test_outside_a_checkout_there_is_none(tmp_path):
    with pytest.raises(InputError, match="expected a checkout"):
        archive.write(tmp_path, tmp_path / "a.zip")


def test_what_is_said_of_the_project_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    codemeta, citation = json.loads((ROOT / "codemeta.json").read_text()), yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert codemeta["version"] == citation["version"] == project["version"]
    assert codemeta["description"] == project["description"]
    assert codemeta["license"].rpartition("/")[2] == citation["license"] == project["license"]
    assert codemeta["keywords"] == citation["keywords"]
    assert [it["name"] for it in codemeta["author"]] == [it["name"] for it in citation["authors"]]
    said = (ROOT / "CITATION.cff").read_text().splitlines()[0] + codemeta["creativeWorkStatus"]
    for missing in ("repository-code", "date-released", "doi", "codeRepository", "datePublished", "identifier", "authors"):
        assert re.search(rf"\b{missing}\b", said), missing
        assert missing == "authors" or missing not in citation
    assert (ROOT / "results" / "published" / "LICENSE.md").read_text().count("CC-BY-4.0") == 1


def test_the_appendix_has_every_claim_and_commands_that_there_are():
    text = (ROOT / "docs" / "artifact.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")]
    assert sorted(id for row in rows for id in re.findall("`([^`]+)`", row[0])) == sorted(claim.id for claim in claims.read(ROOT))
    assert all(len(row) == 4 and all(row) for row in rows)
    commands = [*re.findall(r"^    (\S.*)$", text, re.MULTILINE), *(it for row in rows for it in re.findall("`([^`]+)`", row[2]))]
    rules = (ROOT / "workflow" / "Snakefile").read_text() + (ROOT / "workflow" / "rules" / "claims.smk").read_text()
    for words in map(str.split, commands):
        match words:
            case [".venv/bin/snakemake", "--cores", "1", rule]:
                assert re.search(rf"^(use rule all as {rule} with|rule {rule}):$", rules, re.MULTILINE)
            case [".venv/bin/python", study, *_]:
                assert (ROOT / study).exists()
            case [".venv/bin/ladder", *given]:
                command.parser().parse_args(given)
            case ["make", target]:
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
            case _:
                pytest.fail(f"unknown: {words}")
    assert len(commands) > 8
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        assert link.startswith("https://") or (ROOT / "docs" / link).exists(), link


def test_the_workflow_is_as_the_catalogue_asks():
    told = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert told["software-stack-deployment"]["apptainer"] is ("container:" in (ROOT / "workflow" / "Snakefile").read_text())
    assert told["software-stack-deployment"]["conda"] is False
    assert told["software-stack-deployment"]["report"] is True
    for name in ("README.md", "LICENSE", "config/README.md", "config/config.yaml", "workflow/Snakefile"):
        assert (ROOT / name).exists(), name
