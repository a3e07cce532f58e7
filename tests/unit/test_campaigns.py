"""Which campaigns a run may ask for, and when each is checked."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from ladder.core import places
from ladder.core.errors import InputError
from ladder.devices import detect
from ladder.devices.detect import DetectedDevice
from ladder.pipeline.campaigns import Campaigns
from planted import HOME, written
from synthetic import index

CPU = DetectedDevice("cpu-y", "cpu", "Y", "cpu-y", 2**40)
BASE = {"problems": {"cpu": [{"square": 8}], "cuda": [{"square": 8}]}, "kernels": ["cpu/02*"]}
HALF = "/*---\ntitle: begun\n"
WIDE = (
    f"/*---\ntitle: t\nidea: i\nparameters: {{P: 1, Q: 1}}\nsweep: {{P: {list(range(1000))}, Q: "
    f"{list(range(1000))}}}\n---*/\n"
)


MINE = (HOME / "kernels" / "cpu" / "02_reordered_ikj.c").read_text()
RIVAL = MINE.replace("---\n", "---\nrival: true\n", 1)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one kernel and two campaigns, on a machine without a GPU."""
    monkeypatch.setattr(detect, "detect_gpus", list)
    monkeypatch.setattr(detect, "detect_cpu", lambda: CPU)
    monkeypatch.setattr(places, "HOME", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kernels" / "cuda").mkdir(parents=True)
    shutil.copytree(HOME / "kernels" / "include", tmp_path / "kernels" / "include")
    kernel(tmp_path, "02_reordered_ikj", MINE)
    for name in ("default", "reproduce"):
        write(tmp_path, f"config/{name}.yaml", BASE | {"campaign": name})
    return tmp_path


def kernel(root: Path, name: str, text: str) -> Path:
    return written(root / "kernels" / "cpu" / f"{name}.c", text)


def write(root: Path, name: str, data) -> Path:
    return written(root / name, yaml.safe_dump(data))


def campaigns(files=(), config=None, submits=False, is_main=True) -> Campaigns:
    return Campaigns(
        files, config or {}, lambda campaign, devices, gpus: ["sm_90"], lambda: submits, is_main
    )


def kernels_of(run: Campaigns, name: str) -> list[str]:
    return [id.removeprefix("cpu/") for id in run.targets(name).campaign.kernels]


def test_reproduce_has_a_campaign_of_its_own_unless_one_is_named(checkout):
    run = campaigns()
    assert (run.name, run.reproduce_name) == ("default", "reproduce")
    assert run.data == {name: BASE | {"campaign": name} for name in ("default", "reproduce")}
    assert run.targets("reproduce").campaign.name == "reproduce"
    assert run.targets("reproduce") is run.targets("reproduce")
    own = write(checkout, "own.yaml", BASE | {"campaign": "own"})
    of_file = campaigns([own], yaml.safe_load(own.read_text()))
    for named in (campaigns(config={"campaign": "default"}), of_file):
        assert named.name == named.reproduce_name == next(iter(named.data))


@pytest.mark.parametrize("text", ["campaign: reproduce\nproblems: 8\n", "campaign: [\n"])
def test_a_campaign_that_cannot_be_used_stops_only_the_run_that_asks_for_it(checkout, text):
    written(checkout / "config" / "reproduce.yaml", text)
    run = campaigns()
    assert list(run.data) == ["default"]
    assert run.targets("default").campaign.name == "default"
    with pytest.raises(InputError, match=r"config/reproduce\.yaml: "):
        run.targets(run.reproduce_name)


def test_other_kernels_make_another_campaign_of_both(checkout):
    run = campaigns(config={"kernels": ["cpu/02_reordered_ikj"]})
    assert run.reproduce_name == "reproduce-cpu-02_reordered_ikj"
    assert run.targets(run.reproduce_name).datasets.files("best.csv") == [
        "results/reproduce-cpu-02_reordered_ikj/cpu-y/best.csv"
    ]


def published(root: Path, *kernels: str) -> None:
    """Publish what says which CPU kernels a dataset has, and the claims about it."""
    folder = root / "results" / "published"
    run = folder / "cpu-x" / "default" / "1"
    written(run / "environment.json", "")
    rows = [*(f"{name},float32" for name in kernels), "04_other_type,float64"]
    written(run / "resources.csv", "\n".join(["kernel,element_type", *rows, ""]))
    index(folder)
    key = ["gain", kernels[0], "01_other", "float32", "warm"]
    keys = {"gains:a": [*key, "8x16x32"], "gains:b": [*key, "64"], "whole": []}
    entries = [{"id": id, "key": key} for id, key in keys.items()]
    written(folder / "claims.json", json.dumps(entries))
    claims = [{"id": "gains"}, {"id": "whole"}]
    write(root, "config/claims.yaml", claims)


def test_what_is_published_is_measured_and_not_what_else_lies_there(checkout):
    of_published = BASE | {"campaign": "reproduce", "kernels": "published"}
    write(checkout, "config/reproduce.yaml", of_published)
    message = r"config/reproduce\.yaml: kernels: got published, but .*published has none"
    with pytest.raises(InputError, match=message):
        campaigns().targets("reproduce")
    published(checkout, "02_reordered_ikj", "09_removed_since", "62_rival")
    kernel(checkout, "02_mine", MINE)
    kernel(checkout, "62_rival", RIVAL)
    kernel(checkout, "03_half", HALF)
    kernel(checkout, "04_other_type", MINE)
    run = campaigns()
    assert kernels_of(run, "reproduce") == ["02_reordered_ikj"]
    assert kernels_of(run, "default") == ["02_mine", "02_reordered_ikj"]
    assert run.reproduce_name == "reproduce"
    kernel(checkout, "02_mine", WIDE)
    run = campaigns()
    message = "cpu/02_mine: the lists of its parameters make 1000000 configurations"
    with pytest.raises(InputError, match=message):
        run.targets("default")
    run.targets("reproduce")
    kernel(checkout, "02_reordered_ikj", HALF)
    with pytest.raises(InputError, match=r"02_reordered_ikj\.c: no header"):
        campaigns().targets("reproduce")


@pytest.mark.parametrize(
    ("claim", "name", "kernels", "problems"),
    [
        ("gains", "reproduce-gains", ["02_reordered_ikj"], ["8x16x32", "64"]),
        ("gains:b", "reproduce-gains-b-[0-9a-f]{6}", ["02_reordered_ikj"], ["64"]),
        ("whole", "reproduce-whole", ["02_mine", "02_reordered_ikj"], ["8"]),
    ],
)
def test_one_claim_is_measured_by_the_kernels_and_problems_that_it_is_about(
    checkout, claim, name, kernels, problems
):
    published(checkout, "02_reordered_ikj")
    kernel(checkout, "02_mine", MINE)
    run = campaigns(config={"claim": claim})
    assert re.fullmatch(name, run.reproduce_name)
    assert kernels_of(run, run.reproduce_name) == kernels
    plan = run.targets(run.reproduce_name).campaign
    assert [problem.label for problem in plan.problems("cpu", "float32")] == problems
    assert run.data[plan.name]["claim"] == claim  # by which the job that judges knows it


def test_an_unknown_claim_is_refused(checkout):
    published(checkout, "02_reordered_ikj")
    with pytest.raises(InputError, match=r"claim: got 'gain'; .*did you mean `gains`\?"):
        str(campaigns(config={"claim": "gain"}).name)


def test_a_campaign_is_checked_when_it_is_asked_for(checkout):
    write(checkout, "config/default.yaml", BASE | {"campaign": "default", "devices": ["cuda"]})
    run = campaigns()
    run.targets("reproduce")
    message = r"config/default\.yaml: devices\[0\]: got 'cuda', but no usable GPU was found here"
    with pytest.raises(InputError, match=message):
        run.targets("default")


def test_a_kernel_that_cannot_be_used_matters_to_a_campaign_that_chooses_it(checkout):
    half = kernel(checkout, "02_half", HALF)
    with pytest.raises(InputError, match=r"02_half\.c: no header"):
        campaigns().targets("default")
    assert kernels_of(campaigns(is_main=False), "default") == ["02_reordered_ikj"]
    half.rename(half.with_name("03_half.c"))
    run = campaigns()
    run.targets("default")
    assert list(run.refused) == ["cpu/03_half"]


@pytest.mark.parametrize(
    ("submits", "name", "message"),
    [
        (True, "default", r"config/default\.yaml: partitions: missing; submitted jobs run"),
        (False, "foo", "results/foo: got no campaign of this name; expected results/default, or"),
    ],
)
def test_a_campaign_that_cannot_be_run_is_refused(checkout, submits, name, message):
    with pytest.raises(InputError, match=message):
        campaigns(submits=submits).targets(name)


def test_the_form_of_a_campaign_is_checked_before_its_name_is_used(checkout):
    file = write(checkout, "own.yaml", BASE)
    with pytest.raises(InputError, match=r"own\.yaml: missing key campaign"):
        str(campaigns([file], BASE).name)
