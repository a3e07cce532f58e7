"""Which campaigns a run may ask for, and when each is checked."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from ladder.core.errors import InputError
from ladder.devices import detect
from ladder.devices.detect import DetectedDevice
from ladder.pipeline.campaigns import Campaigns
from planted import ROOT, written
from synthetic import index

CPU = DetectedDevice("cpu-y", "cpu", "Y", "cpu-y", 2**40)
BASE = {"problems": {"cpu": [{"square": 8}], "cuda": [{"square": 8}]}, "kernels": ["cpu/02*"]}
HALF = "/*---\ntitle: begun\n"
WIDE = (
    f"/*---\ntitle: t\nidea: i\nparameters: {{P: 1, Q: 1}}\nsweep: {{P: {list(range(1000))}, Q: "
    f"{list(range(1000))}}}\n---*/\n"
)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with one kernel and two campaigns, on a machine without a GPU."""
    monkeypatch.setattr(detect, "detect_gpus", list)
    monkeypatch.setattr(detect, "detect_cpu", lambda: CPU)
    for kind in ("cpu", "cuda"):
        (tmp_path / "kernels" / kind).mkdir(parents=True)
    shutil.copytree(ROOT / "kernels" / "include", tmp_path / "kernels" / "include")
    shutil.copy(ROOT / "kernels" / "cpu" / "02_reordered_ikj.c", tmp_path / "kernels" / "cpu")
    for name in ("default", "reproduce"):
        write(tmp_path, f"config/{name}.yaml", BASE | {"campaign": name})
    return tmp_path


def write(root: Path, name: str, data) -> Path:
    return written(root / name, yaml.safe_dump(data))


def campaigns(root: Path, files=(), config=None, submits=False, is_main=True) -> Campaigns:
    return Campaigns(
        root, files, config or {}, lambda campaign, devices, gpus: ["sm_90"], submits, is_main
    )


def test_reproduce_has_a_campaign_of_its_own_unless_one_is_named(checkout):
    run = campaigns(checkout)
    assert (run.name, run.reproduce_name) == ("default", "reproduce")
    assert run.data == {name: BASE | {"campaign": name} for name in ("default", "reproduce")}
    assert run.targets("reproduce").campaign.name == "reproduce"
    assert run.targets("reproduce") is run.targets("reproduce")
    own = write(checkout, "own.yaml", BASE | {"campaign": "own"})
    of_file = campaigns(checkout, [own], yaml.safe_load(own.read_text()))
    for named in (campaigns(checkout, config={"campaign": "default"}), of_file):
        assert named.name == named.reproduce_name == next(iter(named.data))


@pytest.mark.parametrize("text", ["campaign: reproduce\nproblems: 8\n", "campaign: [\n"])
def test_a_campaign_that_cannot_be_used_stops_only_the_run_that_asks_for_it(checkout, text):
    (checkout / "config" / "reproduce.yaml").write_text(text)
    run = campaigns(checkout)
    assert list(run.data) == ["default"]
    assert run.targets("default").campaign.name == "default"
    with pytest.raises(InputError, match=r"config/reproduce\.yaml: "):
        run.targets(run.reproduce_name)


def test_other_kernels_make_another_campaign_of_both(checkout):
    run = campaigns(checkout, config={"kernels": ["cpu/02_reordered_ikj"]})
    assert run.reproduce_name == "reproduce-cpu-02_reordered_ikj"
    assert run.targets(run.reproduce_name).datasets.files("best.csv") == [
        "results/reproduce-cpu-02_reordered_ikj/cpu-y/best.csv"
    ]


def published(root: Path, *kernels: str) -> None:
    """Publish what says which CPU kernels a dataset has, and the claims about it."""
    folder = root / "results" / "published" / "cpu-x" / "default" / "1"
    folder.mkdir(parents=True)
    (folder / "environment.json").touch()
    rows = [*(f"{name},float32" for name in kernels), "04_other_type,float64"]
    (folder / "resources.csv").write_text("\n".join(["kernel,element_type", *rows, ""]))
    index(root / "results" / "published")
    keys = {
        id: ["gain", kernels[0], "01_other", "float32", at, "warm"]
        for id, at in (("gains:a", "8x16x32"), ("gains:b", "64"))
    }
    entries = [{"id": id, "key": key} for id, key in (keys | {"whole": [], "kills": []}).items()]
    (root / "results" / "published" / "claims.json").write_text(json.dumps(entries))
    write(
        root,
        "config/claims.yaml",
        [{"id": "gains"}, {"id": "whole"}, {"id": "kills", "study": "kill"}],
    )


def test_what_is_published_is_measured_and_not_what_else_lies_there(checkout):
    write(
        checkout, "config/reproduce.yaml", BASE | {"campaign": "reproduce", "kernels": "published"}
    )
    with pytest.raises(
        InputError,
        match=r"config/reproduce\.yaml: kernels: got published, but .*published has none",
    ):
        campaigns(checkout).targets("reproduce")
    published(checkout, "02_reordered_ikj", "09_removed_since")
    shutil.copy(
        checkout / "kernels" / "cpu" / "02_reordered_ikj.c",
        checkout / "kernels" / "cpu" / "02_mine.c",
    )
    (checkout / "kernels" / "cpu" / "03_half.c").write_text(HALF)
    shutil.copy(
        checkout / "kernels" / "cpu" / "02_reordered_ikj.c",
        checkout / "kernels" / "cpu" / "04_other_type.c",
    )
    run = campaigns(checkout)
    assert list(run.targets("reproduce").campaign.kernels) == ["cpu/02_reordered_ikj"]
    (checkout / "kernels" / "cpu" / "04_other_type.c").unlink()
    assert run.reproduce_name == "reproduce"
    assert list(campaigns(checkout).targets("default").campaign.kernels) == [
        "cpu/02_mine",
        "cpu/02_reordered_ikj",
    ]
    (checkout / "kernels" / "cpu" / "02_mine.c").write_text(WIDE)
    run = campaigns(checkout)
    with pytest.raises(
        InputError, match="cpu/02_mine: the lists of its parameters make 1000000 configurations"
    ):
        run.targets("default")
    run.targets("reproduce")
    (checkout / "kernels" / "cpu" / "02_reordered_ikj.c").write_text(HALF)
    with pytest.raises(InputError, match=r"02_reordered_ikj\.c: no header"):
        campaigns(checkout).targets("reproduce")


def test_one_claim_is_measured_by_the_kernels_and_problems_that_it_is_about(checkout):
    published(checkout, "02_reordered_ikj")
    shutil.copy(
        checkout / "kernels" / "cpu" / "02_reordered_ikj.c",
        checkout / "kernels" / "cpu" / "02_mine.c",
    )

    def asked(claim: str) -> tuple[str, list[str], list[str]]:
        run = campaigns(checkout, config={"claim": claim})
        plan = run.targets(run.reproduce_name).campaign
        assert run.data[plan.name]["claim"] == claim  # by which the job that judges knows it
        return (
            plan.name,
            list(plan.kernels),
            [problem.label for problem in plan.problems("cpu", "float32")],
        )

    assert asked("gains") == ("reproduce-gains", ["cpu/02_reordered_ikj"], ["8x16x32", "64"])
    name, kernels, problems = asked("gains:b")
    assert (kernels, problems) == (["cpu/02_reordered_ikj"], ["64"])
    assert re.fullmatch("reproduce-gains-b-[0-9a-f]{6}", name)
    assert asked("whole") == ("reproduce-whole", ["cpu/02_mine", "cpu/02_reordered_ikj"], ["8"])
    with pytest.raises(InputError, match=r"claim: got 'gain'; .*did you mean `gains`\?"):
        asked("gain")
    with pytest.raises(
        InputError,
        match=r"claim: got 'kills', which a study decides; expected a claim about a dataset",
    ):
        asked("kills")


def test_a_campaign_is_checked_when_it_is_asked_for(checkout):
    write(checkout, "config/default.yaml", BASE | {"campaign": "default", "devices": ["cuda"]})
    run = campaigns(checkout)
    run.targets("reproduce")
    with pytest.raises(
        InputError,
        match=r"config/default\.yaml: devices\[0\]: got 'cuda', but no usable GPU was found here",
    ):
        run.targets("default")


def test_a_kernel_that_cannot_be_used_matters_to_a_campaign_that_chooses_it(checkout):
    half = checkout / "kernels" / "cpu" / "02_half.c"
    half.write_text(HALF)
    with pytest.raises(InputError, match=r"02_half\.c: no header"):
        campaigns(checkout).targets("default")
    assert list(campaigns(checkout, is_main=False).targets("default").campaign.kernels) == [
        "cpu/02_reordered_ikj"
    ]
    half.rename(half.with_name("03_half.c"))
    run = campaigns(checkout)
    run.targets("default")
    assert list(run.refused) == ["cpu/03_half"]


def test_submitted_jobs_need_partitions(checkout):
    with pytest.raises(
        InputError,
        match=r"config/default\.yaml: partitions: missing, and this machine's devices are not those",
    ):
        campaigns(checkout, submits=True).targets("default")


def test_an_unknown_campaign_is_refused(checkout):
    with pytest.raises(
        InputError, match=r"results/foo: got no campaign of this name; expected results/default, or"
    ):
        campaigns(checkout).targets("foo")


def test_resources_have_the_names_that_partitions_give(checkout):
    partitions = {
        "a": {"device": "cpu-y", "resources": {"slurm_partition": "x", "gres": "gpu:1"}},
        "b": {"device": "cpu-z"},
    }
    run = campaigns(checkout, config={"partitions": partitions})
    assert set(run.requests(gpu=False, runtime=1)) == {"runtime", "slurm_partition"}
    assert set(run.requests(gpu=True, runtime=1)) == {"runtime", "slurm_partition", "gres", "gpu"}


def test_the_form_of_a_campaign_is_checked_before_its_name_is_used(checkout):
    file = write(checkout, "own.yaml", BASE)
    with pytest.raises(InputError, match=r"own\.yaml: missing key campaign"):
        str(campaigns(checkout, [file], BASE).name)
