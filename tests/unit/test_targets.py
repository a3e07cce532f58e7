"""What a campaign consists of, and what its jobs ask for."""

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import synthetic
from ladder.core.errors import InputError
from ladder.devices.detect import DetectedDevice
from ladder.model import campaign_file, kernel_file
from ladder.pipeline import campaigns, messages, targets
from ladder.pipeline.published import Published
from ladder.storage import dataset_layout, published_index
from planted import ROOT, written

KERNELS = kernel_file.discover(ROOT)
GPU = DetectedDevice("nvidia-x", "cuda", "NVIDIA X", "sm_90", 2**30)
CPU = DetectedDevice("cpu-y", "cpu", "Y", "cpu-y", 2**30)
DATA = {
    "campaign": "t",
    "kernels": ["cuda/02_naive_coalesced", "cuda/03_shared_tile", "cpu/03_blocked"],
    "problems": {"cuda": [[100, 200, 300], [1000, 1000, 1000]], "cpu": [[4, 4, 4]]},
    "parameters": {"cuda/03_shared_tile": {"BM": [16], "BN": [16], "BK": [8, 16, 32]}},
}


def made(devices=(GPU, CPU), architectures=("sm_80", "sm_90"), **data):
    return targets.Targets(campaign_file.load(DATA | data, "t", KERNELS), devices, architectures)


def test_every_kernel_is_compiled_for_what_its_kind_runs_on():
    kernels = [
        f"{arch}/{kernel}"
        for arch in ("sm_80", "sm_90")
        for kernel in ("02_naive_coalesced", "03_shared_tile")
    ]
    assert sorted(made().compiled()) == [
        f"results/t/build/{it}/resources.csv" for it in ("cpu-y/03_blocked", *kernels)
    ]
    assert made(devices=[GPU], architectures=[]).compiled() == []


def test_files_of_the_datasets():
    assert made().measured("a", "b") == [
        f"results/t/{device}/{name}" for device in ("nvidia-x", "cpu-y") for name in "ab"
    ]
    assert made().measured("a", kind="cpu") == ["results/t/cpu-y/a"]
    assert made().compared() == []
    two = made(devices=[GPU, CPU, DetectedDevice("nvidia-z", "cuda", "NVIDIA Z", "sm_80", 2**30)])
    assert two.compared() == ["results/t/compared-cuda.svg"]


def test_a_measure_job_needs_the_kernel_that_it_is_about():
    assert (
        made().binaries("nvidia-x", "03_shared_tile.float32.1of2")
        == "results/t/build/sm_90/03_shared_tile/resources.csv"
    )
    assert made().binaries("cpu-y", "baselines.float32") == []
    assert made().support("cpu-y") == "results/t/build/cpu-y/support.bin"


def test_a_dataset_of_the_campaign():
    folder, build, of = Path("results/t/cpu-y"), Path("results/t/build/cpu-y"), "cpu-y"
    assert made().samples(of) == [
        folder / "samples" / f"{job}.float32.parquet" for job in ("baselines", "03_blocked")
    ]
    assert made().resources(of) == [build / "03_blocked" / "resources.csv"]
    assert made().headers(of) == [KERNELS["cpu/03_blocked"].path]
    assert made().environment(of) == folder / "environment.json"


def publish(published, name, run):
    """A published run of a device and campaign: a folder, and its entry in the index."""
    folder = published / name / run
    (folder / "samples").mkdir(parents=True)
    device = name.split("/")[0]
    (folder / "environment.json").write_text(
        json.dumps({"device": device, "kind": "cpu" if device[:3] == "cpu" else "cuda"})
    )
    synthetic.index(published)


def test_what_the_readme_is_about_is_made_by_itself_too(tmp_path):
    publish(tmp_path, published_index.HEADLINE, "1")
    assert (
        f"results/redrawn/{published_index.HEADLINE}/drawn.checked"
        in Published(tmp_path, KERNELS).headline()
    )


def test_a_published_dataset_keeps_to_the_kernels_that_are_still_there(tmp_path):
    gpu, cpu = "nvidia-a/default", "cpu-b/default"
    for name, run in ((gpu, "1"), (gpu, "2"), (cpu, "1")):
        publish(tmp_path, name, run)
    (tmp_path / "robustness").mkdir()
    for job in ("baselines.float32", "03_shared_tile.float32", "99_gone.float32"):
        (tmp_path / gpu / "1" / "samples" / f"{job}.parquet").touch()
    compiled = (
        "kernel,element_type\n03_shared_tile,float32\n03_shared_tile,float64\n99_gone,float32\n"
    )
    written(tmp_path / gpu / "1" / "resources.csv", compiled)
    # published without its sweep
    written(tmp_path / cpu / "1" / "resources.csv", "kernel,element_type\n03_blocked,float32\n")
    published = Published(tmp_path, KERNELS)
    made_of_each = ("drawn.checked", "figures", *(f"{name}.csv" for name in dataset_layout.TABLES))
    assert published.redrawn() == [
        *(f"results/redrawn/{device}/{name}" for device in (cpu, gpu) for name in made_of_each),
        "results/redrawn/index.html",
    ]
    assert published.headline() == []
    assert published.indexed() == [cpu, gpu]
    assert published.claims() == []
    (tmp_path / "claims.json").touch()
    assert published.claims() == [tmp_path / "claims.json"]
    assert [path.relative_to(tmp_path / gpu).as_posix() for path in published.committed(gpu)] == [
        "1/environment.json",
        "1/resources.csv",
        "1/samples/03_shared_tile.float32.parquet",
        "1/samples/99_gone.float32.parquet",
        "1/samples/baselines.float32.parquet",
        "2/environment.json",
    ]
    assert published.ids(["float64"]) == ["cuda/03_shared_tile"]
    assert published.environment(gpu) == tmp_path / gpu / "1" / "environment.json"


def test_the_featured_datasets_of_the_headlines_campaign_are_compared(tmp_path):
    for name, run in (
        ("nvidia-a/default", "1"),
        ("nvidia-b/default", "1"),
        ("nvidia-b/default", "2"),
        ("nvidia-c/mine", "1"),
    ):
        publish(tmp_path, name, run)
    published = Published(tmp_path, KERNELS)
    assert published.compared() == ["results/redrawn/compared-cuda.svg"]
    assert published.redrawn()[-2:] == [
        "results/redrawn/compared.checked",
        "results/redrawn/index.html",
    ]
    assert made().indexed() == ["nvidia-x", "cpu-y"]
    assert made().claims() == [
        Path(f"results/t/{name}/claims.json") for name in ("nvidia-x", "cpu-y")
    ]
    assert published.compared_devices("cuda") == ["nvidia-a/default", "nvidia-b/default"]
    assert made().compared_devices("cuda") == ["nvidia-x"]
    assert Published(Path("/nowhere"), KERNELS).compared() == []


def test_figures_are_drawn_as_asked_but_published_ones_always_the_same():
    of_campaign, usual = (
        made(figures={"width": 3.4, "formats": ["pdf"]}),
        {"width": 11.0, "formats": []},
    )
    assert of_campaign.drawing() == {"width": 3.4, "formats": ["pdf"]}
    assert Published(Path("/nowhere"), KERNELS).drawing() == made().drawing() == usual


def test_threads_are_shared_by_the_number_of_configurations():
    of_campaign = made()
    counts = {
        id: len(configurations)
        for id, configurations in of_campaign.campaign.configurations.items()
    }
    total = (
        2 * (counts["cuda/02_naive_coalesced"] + counts["cuda/03_shared_tile"])
        + counts["cpu/03_blocked"]
    )
    assert counts["cuda/03_shared_tile"] == 3
    assert of_campaign.compiling_threads("sm_80", "03_shared_tile", 10 * total) == 30
    assert of_campaign.compiling_threads("cpu-y", "03_blocked", total) == counts["cpu/03_blocked"]
    assert of_campaign.compiling_threads("sm_80", "03_shared_tile", 1) == 1
    assert of_campaign.kernel("sm_90a", "03_shared_tile").id == "cuda/03_shared_tile"
    assert (
        of_campaign.measuring_threads("nvidia-x", 8),
        of_campaign.measuring_threads("cpu-y", 8),
    ) == (1, 8)


def test_memory_is_that_of_the_largest_problem():
    assert (
        made().measuring_mb()
        == 3000 + made().campaign.problems("cuda", "float32")[1].bytes // 10**6
        > 3010
    )


def asked(of_campaign, gpu, usual, attempt=1, threads=2, **wildcards):
    """What a job asks for, by resource."""
    partitions = {
        name: vars(partition) for name, partition in of_campaign.campaign.partitions.items()
    }
    run = campaigns.Campaigns(ROOT, [], {}, lambda *_: [], submits=False, is_main=True)
    run._targets["t"] = of_campaign
    vars(run)["data"] = {"t": {"partitions": partitions}}
    requests = run.requests(gpu, **usual)
    return {
        name: request(SimpleNamespace(dataset="t", **wildcards), threads, attempt)
        for name, request in requests.items()
    }


def test_what_the_job_of_a_machine_asks_for():
    usual = {"mem_mb": lambda targets, threads: targets.measuring_mb() + threads, "runtime": 10}
    memory = made().measuring_mb() + 2
    assert asked(made(), True, usual, device="nvidia-x") == {
        "gpu": 1,
        "mem_mb": memory,
        "runtime": 10,
    }
    assert asked(made(), True, usual, attempt=3, device="cpu-y") == {
        "gpu": 0,
        "mem_mb": 3 * memory,
        "runtime": 30,
    }
    assert asked(made(), False, usual, arch="sm_90") == {"mem_mb": memory, "runtime": 10}


def test_what_the_job_of_a_partition_asks_for():
    gpu = {
        "device": "nvidia-x",
        "architecture": "sm_90",
        "resources": {"slurm_partition": "p", "gres": "gpu:2", "runtime": 7},
    }
    partitions = {"one": gpu, "two": {"device": "cpu-y", "resources": {"constraint": "avx"}}}
    devices = [
        DetectedDevice("one", "cuda", "x", "sm_90", 0),
        DetectedDevice("two", "cpu", "cpu-y", "cpu-y", 0),
    ]
    of_campaign = made(devices=devices, partitions=partitions)
    usual = {"mem_mb": 5, "runtime": 10}
    of_gpu = asked(of_campaign, True, usual, attempt=2, device="one")
    assert of_gpu == {
        "gpu": None,
        "mem_mb": 10,
        "runtime": 14,
        "slurm_partition": "p",
        "gres": "gpu:2",
        "constraint": None,
    }
    # compiling for a GPU needs none, and no partition; for a CPU it is done where that is
    nothing = {"mem_mb": 5, "runtime": 10, "slurm_partition": None, "constraint": None}
    assert asked(of_campaign, False, usual, arch="sm_90") == nothing
    assert asked(of_campaign, False, usual, arch="cpu-y") == nothing | {"constraint": "avx"}
    assert of_campaign.headers("two") == [KERNELS["cpu/03_blocked"].path]
    of_cpu = asked(of_campaign, True, usual, device="two")
    assert (of_cpu["gpu"], of_cpu["constraint"], of_cpu["gres"]) == (0, "avx", None)


def test_counters_need_a_gpu_and_nsight_compute():
    assert made().counted(ncu=True) == ["results/t/nvidia-x/counters.svg"]
    with pytest.raises(
        InputError, match=r"t: devices: got cpu-y; expected an NVIDIA GPU among them"
    ):
        made(devices=[CPU]).counted(ncu=True)
    with pytest.raises(InputError, match="PATH: got no ncu; expected that of Nsight Compute"):
        made().counted(ncu=False)


def test_everything_of_a_campaign():
    targets_of_t = set(made(devices=[GPU, replace(GPU, slug="nvidia-z")]).everything())
    assert {
        "results/t/nvidia-z/claims.json",
        "results/t/compared-cuda.svg",
        "results/t/index.html",
    } < targets_of_t
    assert {
        "results/t/build/sm_80/03_shared_tile/resources.csv",
        "results/t/nvidia-x/confirmed.parquet",
    } < targets_of_t
    assert set(made(devices=[]).everything()) == {
        path for path in targets_of_t if "/build/" in path
    }


@pytest.mark.parametrize(("words", "names"), messages.REFUSALS.items())
def test_a_refusal_says_what_to_change(words, names):
    (line,) = messages.refusals(["fine", f"sbatch: error: {words}"], "mine.yaml")
    assert f"({words})" in line
    assert f"Change {names}: in mine.yaml under `partitions`" in line
    assert messages.refusals(["fine"], "mine.yaml") == []


def test_what_datasets_are_held_against(tmp_path):
    published = tmp_path / "results" / "published"
    published.mkdir(parents=True)
    assert Published(published, KERNELS).claimed() == [tmp_path / "config" / "claims.yaml"]
    for name in ("claims.json", "repeat-d.csv", "repeat-d.json"):
        (published / name).touch()
    assert Published(published, KERNELS).claimed()[1:] == [
        published / "claims.json",
        published / "repeat-d.csv",
    ]


def test_what_is_judged_anew_is_all_data_that_are_published(tmp_path):
    for name in (
        "d/environment.json",
        "d/again/samples/a.parquet",
        "studies/kill.d.json",
        "repeat-d.csv",
    ):
        written(tmp_path / name, "one")
    for name in ("claims.json", "SHA256SUMS", "d/figure.svg"):
        (tmp_path / name).touch()
    published = Published(tmp_path, KERNELS)
    names = [path.relative_to(tmp_path).as_posix() for path in published.data()]
    assert names == [
        "d/again/samples/a.parquet",
        "d/environment.json",
        "repeat-d.csv",
        "studies/kill.d.json",
    ]
    before = published.all_contents()
    (tmp_path / "claims.json").write_text("more")
    assert published.all_contents() == before
    (tmp_path / "d/again/samples/a.parquet").write_text("two")
    assert published.all_contents() != before


def with_text(text: str, of: str = "cuda/03_shared_tile", **changes) -> targets.Targets:
    """The campaign on two devices; a kernel has this text."""
    changed = KERNELS | {of: replace(KERNELS[of], text=text)}
    return targets.Targets(campaign_file.load(DATA | changes, "t", changed), [GPU, CPU], [])


def test_a_digest_of_contents_follows_the_kernels_of_a_dataset():
    def contents(*of):
        return [with_text(*of).contents(device) for device in ("nvidia-x", "cpu-y")]

    first, other = contents("a"), contents("b")
    assert first == contents("a")
    assert (first[0] == other[0], first[1] == other[1]) == (False, True)
    # not one of the campaign's
    assert contents("a", "cuda/01_naive_uncoalesced") == contents("b", "cuda/01_naive_uncoalesced")


def test_a_plan_is_written_when_what_its_job_must_do_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(made: targets.Targets) -> set[str]:
        """The plans that were written, of those of the GPU."""
        made.write_plans()
        written = set()
        for path in Path("results/t/plans").glob("*.json"):
            if path.stat().st_mtime_ns and "cpu-y" not in path.name:
                written.add(path.stem)
            os.utime(path, (0, 0))
        return written

    measured = {"measure-nvidia-x-baselines.float32", "measure-nvidia-x-02_naive_coalesced.float32"}
    of_kernel = {"measure-nvidia-x-03_shared_tile.float32", "confirm-nvidia-x"}
    assert write(with_text("a")) == measured | of_kernel
    assert write(with_text("a")) == set()
    assert write(with_text("b")) == of_kernel
    assert write(with_text("b", measure={"min_samples": 11})) == measured | of_kernel - {
        "confirm-nvidia-x"
    }


def test_where_no_plan_can_be_written_the_file_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to("/sys/kernel")  # where nobody makes folders, root neither
    with pytest.raises(
        InputError, match=r"^results/t/plans/\S+\.json: Operation not permitted; expected a file"
    ):
        with_text("a").write_plans()


def test_what_is_published_is_known_by_its_contents(tmp_path):
    publish(tmp_path, "nvidia-x/default", "1")
    before = Published(tmp_path, KERNELS).contents("nvidia-x/default")
    (tmp_path / "nvidia-x" / "default" / "1" / "a").write_text("two")
    assert Published(tmp_path, KERNELS).contents("nvidia-x/default") != before
