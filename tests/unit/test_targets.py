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
from ladder.model import campaign_file
from ladder.pipeline import campaigns, datasets, messages, targets
from ladder.storage import dataset_layout
from planted import written
from rungs import ALL as KERNELS

GPU = DetectedDevice("nvidia-x", "cuda", "NVIDIA X", "sm_90", 2**30)
CPU = DetectedDevice("cpu-y", "cpu", "Y", "cpu-y", 2**30)
DATA = {
    "campaign": "t",
    "kernels": ["cuda/02_naive_coalesced", "cuda/03_shared_tile", "cpu/03_blocked"],
    "problems": {"cuda": [[100, 200, 300], [1000, 1000, 1000]], "cpu": [[4, 4, 4]]},
    "baselines": {"cuda": ["cublas"]},
    "parameters": {"cuda/03_shared_tile": {"BM": [16], "BN": [16], "BK": [8, 16, 32]}},
}


def made(devices=(GPU, CPU), architectures=("sm_80", "sm_90"), **data):
    return targets.Targets(campaign_file.load(DATA | data, "t", KERNELS), devices, architectures)


def test_a_dataset_of_the_campaign():
    folder, build, of = "results/t/cpu-y", "results/t/build/cpu-y", "cpu-y"
    targets_of_t = made()
    assert targets_of_t.samples(of) == [f"{folder}/samples/float32.parquet"]
    assert targets_of_t.resources(of) == [f"{build}/03_blocked/resources.csv"]
    assert targets_of_t.headers(of) == [KERNELS["cpu/03_blocked"].path]
    assert targets_of_t.support(of) == f"{build}/support.bin"
    parts = ("02_naive_coalesced", "03_shared_tile", "baselines")
    for number, name in enumerate(parts, 1):
        reports = targets_of_t.binaries("nvidia-x", f"float32.{number}of3")
        assert reports == [f"results/t/build/sm_90/{name}/resources.csv"][: name != "baselines"]


def publish(published, name, run):
    """A published run of a device and campaign: a folder, and its entry in the index."""
    kind = "cpu" if name.startswith("cpu") else "cuda"
    environment = json.dumps({"device": name.split("/")[0], "kind": kind})
    written(published / name / run / "environment.json", environment)
    synthetic.index(published)


def test_datasets_of_a_campaign_and_published_ones_have_the_same_files(tmp_path):
    groups = "cpu-b/default", "nvidia-a/default", "nvidia-b/default", "nvidia-c/mine"
    for name in groups:
        publish(tmp_path, name, "1")
    publish(tmp_path, "nvidia-b/default", "2")
    (tmp_path / "claims.json").touch()
    several = [GPU, CPU, replace(GPU, slug="nvidia-z")]
    own = made(several, figures={"formats": ["pdf"]}).datasets
    published = datasets.published(tmp_path, groups)
    assert own.formats == ["pdf"]
    assert list(published.formats) == made().datasets.formats == []
    assert own.claims == own.files("claims.json")
    assert published.claims == [tmp_path / "claims.json"]
    assert own.comparisons() == ["results/t/compared-cuda.svg"]
    for folder, several in (("results/t", own), ("results/redrawn", published)):
        assert several.files("a", "b") == [
            f"{folder}/{name}/{file}" for name in several.kinds for file in "ab"
        ]
        assert set(several.files("a", kind="cpu")) < set(several.files("a"))
        assert several.page() == [f"{folder}/index.html"]
    nothing = datasets.published(Path("/nowhere"), [])
    assert made().datasets.comparisons() == nothing.comparisons() == nothing.page() == []


def test_kernels_that_are_compiled_for_no_architecture_are_counted():
    text = "2 CUDA kernels not compiled: no GPU found; `--config 'architectures=[sm_90]'`"
    assert made([CPU], []).uncompiled().startswith(text)
    assert made([CPU]).uncompiled() == ""
    assert made([CPU], [], kernels=["cpu/03_blocked"], parameters={}).uncompiled() == ""


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


def test_a_gpu_takes_a_core_only_beside_a_cpu_to_measure_and_where_jobs_are_submitted():
    both, partitions = made(), {"one": {"device": "nvidia-x", "architecture": "sm_90"}}
    assert [both.measuring_threads(name, 8) for name in ("nvidia-x", "cpu-y")] == [1, 8]
    assert made([GPU]).measuring_threads("nvidia-x", 8) == 0
    assert made([GPU], partitions=partitions).measuring_threads("nvidia-x", 8) == 1


def test_memory_and_minutes_follow_from_the_largest_problem_and_the_work():
    small, largest = made(), made().campaign.problems("cuda", "float32")[1].bytes // 10**6
    assert small.measuring_mb == 3500 + largest > 3510
    assert small.sweep_minutes == small.confirm_minutes == 60
    problems = {"cuda": [[1000, 1000, k] for k in range(1, 1001)]}
    large = made(problems=problems, confirm={"processes": 40})
    assert 60 < large.sweep_minutes < 70
    assert 140 < large.confirm_minutes < 160  # of parts of half an hour


def asked(of_campaign, gpu, usual, attempt=1, threads=2, **wildcards):
    """What a job asks for, by resource."""
    partitions = {
        name: vars(partition) for name, partition in of_campaign.campaign.partitions.items()
    }
    run = campaigns.Campaigns([], {}, lambda *_: [], submits=bool, is_main=True)
    run._targets["t"] = of_campaign
    vars(run)["data"] = {"t": {"partitions": partitions}}
    requests = run.requests(gpu, **usual)
    return {
        name: request(SimpleNamespace(dataset="t", **wildcards), threads, attempt)
        for name, request in requests.items()
    }


def test_what_the_job_of_a_machine_asks_for():
    usual = {"mem_mb": lambda targets, threads: targets.measuring_mb + threads, "runtime": 10}
    memory = made().measuring_mb + 2
    assert asked(made(), True, usual, device="nvidia-x") == {
        "gpu": 1,
        "measuring": 1,
        "mem_mb": memory,
        "runtime": 10,
    }
    assert asked(made(), True, usual, attempt=3, device="cpu-y") == {
        "gpu": 0,
        "measuring": 1,
        "mem_mb": 3 * memory,
        "runtime": 30,
    }
    assert asked(made(), False, usual, arch="sm_90") == {"mem_mb": memory, "runtime": 10}


def test_the_tables_ask_for_memory_and_time_by_their_rows():
    sizes = [[size, size, size] for size in range(8, 1008)]
    of, many = "nvidia-x", made(problems={"cuda": sizes})
    # warm in the sweep: 3 configurations of one kernel, 1 of another, and cuBLAS
    assert many.measurements(of) >= 5 * len(sizes)
    assert many.tables_mb(of) - made().tables_mb(of) >= 0.001 * 5 * len(sizes) - 1
    assert many.tables_minutes(of) > made().tables_minutes(of)


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
        "measuring": 1,
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
    with pytest.raises(InputError, match="PATH: no ncu found; `counters` needs"):
        made().counted(ncu=False)


def test_everything_of_a_campaign():
    """Every kernel is compiled for what its kind runs on, whether that is there or not."""
    names = ("sm_80/02_naive_coalesced", "sm_90/02_naive_coalesced")
    names += ("sm_80/03_shared_tile", "sm_90/03_shared_tile")
    compiled = {f"results/t/build/{name}/resources.csv" for name in names}
    assert set(made([]).everything()) == compiled
    everything = set(made([GPU, CPU, replace(GPU, slug="nvidia-z")]).everything())
    assert {
        "results/t/build/cpu-y/03_blocked/resources.csv",
        "results/t/nvidia-z/claims.json",
        "results/t/nvidia-x/samples/float32.2of3.parquet",
        "results/t/nvidia-x/confirmed.parquet",
        "results/t/compared-cuda.svg",
        "results/t/index.html",
    } | compiled < everything


@pytest.mark.parametrize(("words", "names"), messages.REFUSALS.items())
def test_a_refusal_says_what_to_change(words, names):
    (line,) = messages.refusals(["fine", f"sbatch: error: {words}"], "mine.yaml")
    assert f"({words})" in line
    assert f"Change {names}: in mine.yaml under `partitions`" in line
    assert messages.refusals(["fine"], "mine.yaml") == []


def test_what_is_judged_anew_is_all_data_that_are_published(tmp_path):
    names = ["d/again/samples/a.parquet", "d/environment.json", "repeat-d.csv", "studies/kill.json"]
    for name in (*names, "claims.json", "SHA256SUMS", "d/figure.svg"):
        written(tmp_path / name, name)
    paths = datasets.judged_by(tmp_path)
    assert paths == [tmp_path / name for name in names]
    before = dataset_layout.contents(paths)
    (tmp_path / names[0]).write_text("other")
    assert dataset_layout.contents(paths) != before


def with_text(text: str, of: str = "cuda/03_shared_tile", **changes) -> targets.Targets:
    """The campaign on two devices; a kernel has this text."""
    changed = KERNELS | {of: replace(KERNELS[of], text=text)}
    return targets.Targets(campaign_file.load(DATA | changes, "t", changed), [GPU, CPU], [])


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

    measured = {"measure-nvidia-x-float32.1of3", "measure-nvidia-x-float32.3of3"}
    of_kernel = {"measure-nvidia-x-float32.2of3", "confirm-nvidia-x"}
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
        InputError,
        match=r"^results/t/plans/\S+\.json: cannot be written: Operation not permitted; ",
    ):
        with_text("a").write_plans()
