"""The studies that need no GPU run, and what they measure is read and parted as it should."""

import hashlib
import importlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from itertools import product
from types import SimpleNamespace
from unittest.mock import Mock

import agreement
import benchmark
import beside
import beside_kernel_tuner
import changes
import checks
import pandas as pd
import power
import pytest
import synthetic
from ladder.analysis import compare
from ladder.analysis.dataset import Dataset
from ladder.claims import study
from ladder.claims.answers import STUDIES
from ladder.claims.study import NOTHING
from ladder.compiling import compilers
from ladder.core.errors import InputError
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from planted import ROOT, written
from simulated import support

KERNELS = discover(ROOT)
SCRIPTS = sorted({script[1] for entry in STUDIES.values() if (script := re.search(r"studies/(\w+)\.py", entry.run))})


@pytest.mark.parametrize("name", SCRIPTS)
def test_its_help_is_its_text_and_measures_nothing(name, capsys, monkeypatch):
    assert not (ROOT / "workflow" / "scripts" / f"{name}.py").exists()  # which would be imported in its place, by a job
    module = importlib.import_module(name)
    monkeypatch.setattr(sys, "argv", [program := f"{name}.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        module.main()
    output = capsys.readouterr().out
    assert output.startswith(f"usage: {program}")
    assert module.__doc__.strip() in output


def test_without_a_gpu_a_study_that_needs_one_says_so_in_a_line():
    command = [sys.executable, ROOT / "studies" / "beside.py", "tried"]
    done = subprocess.run(command, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"Error: No GPU found\. Check .*\n", done.stderr)


def test_what_differs_from_kernel_tuner_is_told_apart():
    """Each factor's effect, from times to which every level adds a share of its own and noise that cells of a round have in common."""
    share = {"queued": 1.01, "host": 1.03, "idle": 1.02, "constant": 0.99, "nvrtc": 1.0, "allocated": 1.005}
    cells = list(product(*beside_kernel_tuner.FACTORS.values()))
    times = {cell: 400 * math.prod(share.get(level, 1) for level in cell) for cell in cells}
    rounds = [{cell: noise * time for cell, time in times.items()} for noise in (0.9, 1, 1.3, 1.1)]
    effects = beside_kernel_tuner.effects(rounds)
    assert {level: ratio[0] for levels in effects.values() for level, ratio in levels.items()} == pytest.approx(share)
    assert set(beside_kernel_tuner.LIKE_IT) == set(beside_kernel_tuner.FACTORS)
    assert all(level in beside_kernel_tuner.FACTORS[factor] for factor, level in beside_kernel_tuner.LIKE_IT.items())


def test_what_the_gpu_tests_found_is_read_from_their_report(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\ndef test_right(record_property):\n    record_property('tool', 'memcheck')\n    record_property('errors', 2)\n"
        "    record_property('launches', 0)\ndef test_wrong(): assert 0, 'because ' + 999 * '.'\n@pytest.fixture\ndef broken(): assert 0\n"
        "def test_broken(broken): pass\n@pytest.mark.skip\ndef test_skipped(): pass\n"
    )
    report = tmp_path / "report.xml"
    subprocess.run([sys.executable, "-m", "pytest", "-q", f"--junit-xml={report}", "-c", "/dev/null", tmp_path], check=False)
    read = checks.read(report)
    outcomes, messages = ({id.rpartition("::")[2]: it for id, it in read[of].items()} for of in ("tests", "messages"))
    assert outcomes == {"test_right": "passed", "test_wrong": "failed", "test_broken": "failed", "test_skipped": "skipped"}
    assert messages.keys() == {"test_wrong", "test_broken"}
    assert re.match(r"AssertionError: because \.+$", messages["test_wrong"])
    assert len(messages["test_wrong"]) == checks.MESSAGE
    assert "assert 0" in messages["test_broken"]
    assert read["sanitizer"] == {"memcheck": {"errors": 2, "launches": 0}}


def test_what_was_said_to_the_claims_is_that_of_the_own_datasets(tmp_path):
    states = [
        ("own", "not reproduced"), ("other", "not reproduced"), ("more", "reproduced"), ("again", "reproduced"),
        ("none", NOTHING),
    ]  # fmt: skip
    (tmp_path / "here").mkdir()
    entries = [{"id": id, "state": state, "dataset": "results/here/gpu"} for id, state in states]
    entries[1]["dataset"] = "published/same-gpu"
    (tmp_path / "here" / "reproduced.json").write_text(json.dumps(entries))
    counted = {"not reproduced": 1, "reproduced": 2, NOTHING: 1}
    assert power.states(tmp_path / "here") == {"states": counted, "not_reproduced": ["own"]}
    assert power.verdicts(tmp_path / "here") == {
        "not reproduced": ["own"], "reproduced": ["more", "again"], "not distinguishable": [],
    }  # fmt: skip


def test_sizes_are_those_of_files(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_bytes(b"a" * 3000)
    (tmp_path / "b").write_bytes(b"b" * 2000)
    (tmp_path / "link").symlink_to("b")
    assert benchmark.megabytes(tmp_path) == 0.005


@pytest.fixture
def host(tmp_path):
    """A bench on the CPU."""
    bench = beside.Bench("cpu", tmp_path)
    yield bench
    bench.device.close()


def legal(kernel):
    """The configurations of a kernel."""
    return [configuration for configuration, objection in kernel.expand({}, ["float32"]) if not objection]


@pytest.fixture
def gpu(tmp_path, gpus, monkeypatch):
    """A bench on a simulated GPU, on a virtual clock; a sample is one launch, however short."""
    monkeypatch.setattr(beside, "Limits", partial(beside.Limits, sample_us=0))
    monkeypatch.setattr(beside, "compile_support", lambda *_: support(gpus).read_bytes())
    bench = beside.Bench("cuda", tmp_path)
    yield bench
    bench.device.close()


def test_what_a_campaign_took_is_read_from_its_costs(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "ROOT", tmp_path)
    (folder := tmp_path / "results" / "default" / "d").mkdir(parents=True)
    lines = ["job,wall_seconds,busy_seconds,gauntlet_seconds,peak_memory_bytes", "a,30,20,1.5,1e9", "b,10,8,0.5,2e9"]
    (folder / "costs.csv").write_text("\n".join([*lines, "confirmed,10,7,,1e9"]))
    costs = benchmark.last_campaign()["d"]
    assert costs == {"measure_s": 50, "confirm_s": 10, "gauntlet_s": 2, "busy_share": 0.7, "peak_host_memory_gb": 2}


@pytest.mark.slow
def test_neighbours_are_timed_with_and_without_the_wait(host):
    measured = beside.neighbours(host, 2, (96,), 5)
    assert [row["name"] for row in measured["rows"]] == ["blas_1", "cpu/03_blocked"]
    assert all(len(row["ratios"][how]) == 2 and row[how] > 0 for row in measured["rows"] for how in ("beside", "unsettled"))
    assert len(host.binaries) == 1


def test_a_line_through_times_parts_what_a_call_takes_from_what_a_row_takes():
    assert beside.line({24: 340.0, 48: 580.0, 96: 1060.0}) == pytest.approx({"fixed_us": 100, "row_us": 10, "off": 1})
    assert beside.line({24: 340.0, 48: 580.0, 96: 1200.0})["off"] == pytest.approx(0.95, abs=0.02)


def test_blas_and_the_rung_are_timed_where_c_has_few_rows(host):
    measured = beside.thin(host, 1, (12, 24, 48), 64, 5)
    assert [list(times) for times in measured["times_us"].values()] == [[12, 24, 48]] * 2
    assert all(time > 0 for times in measured["times_us"].values() for time in times.values())
    assert [line["name"] for line in measured["lines"]] == ["blas_1", "cpu/04_vectorized_parallel"]
    assert [len(digest) for digest in host.binaries.values()] == [64]


def compiles(kernel, configuration):
    """Without optimization, which would take most of the time."""
    arch, include = kernel.architecture or "sm_90", kernel.path.parents[1] / "include"
    assert compilers._nvrtc(kernel.source(configuration), arch, include, ["--device-debug"])[0].startswith(b"\x7fELF")


@pytest.mark.slow
def test_a_kernel_is_slowed_where_it_ends(tmp_path):
    """It still compiles; that it takes longer is seen on a GPU."""
    name = f"cuda/{power.SLOWED[0]}"
    source = KERNELS[name].path.read_text()
    made = power.slow_down(source, 3)
    body = made.partition(" gemm(")[2].partition("\n}\n")[0]
    assert body.index("begun = clock64();") < body.index("share<true>") < body.index("< 3 * spent);")
    assert len(made.splitlines()) == len(source.splitlines()) + 3
    written(tmp_path / "kernels" / f"{name}.cu", made)
    shutil.copytree(ROOT / "kernels" / "include", tmp_path / "kernels" / "include")
    kernel = discover(tmp_path)[name]
    compiles(kernel, legal(kernel)[0])


def test_runs_of_the_same_code_are_held_together_and_longer_times_found(tmp_path):
    sizes = {"problems": [(256, 256, 256), (4096, 4096, 4096)], "kernels": ("03_shared_tile", "10_block_tile_128", "cublas")}
    sides = [Dataset.open(synthetic.write(tmp_path / f"run{seed}", seed, **sizes)) for seed in range(3)]
    measured = power.measure_published(tmp_path, {"GPU-0": sides})
    (machine,) = measured["machines"]
    assert [run["dataset"] for run in machine] == ["run0", "run1", "run2"]
    assert {run["commit"] for run in machine} == {synthetic.ENVIRONMENT["project"]["commit"]}
    confirmations = [hashlib.sha256((side.folder / "confirmed.parquet").read_bytes()).hexdigest() for side in sides]
    assert [run["confirmed_sha256"] for run in machine] == confirmations
    assert measured["alike"] == 3 * 3 * (2 + 2)  # at 4096 cold is as warm, and launches are sustained
    assert measured["slowed"] == 12 * 3
    assert measured["called"] <= 0.15
    assert measured["found"] >= 0.75
    assert measured["held_out"] == {"alike": 0, "called": None}  # no other machine has made a limit
    both = power.measure_published(tmp_path, {"GPU-0": sides, "GPU-1": sides[:2], "GPU-2": sides[:1]})
    assert both["alike"] == measured["alike"] + 3 * (2 + 2)  # each with its own
    assert both["held_out"]["alike"] == both["alike"]
    assert both["held_out"]["called"] <= 0.15
    assert len(both["machines"]) == 2
    late = power.longer(sides[0])
    assert compare.changes(sides[0], late, {})["ratio"].tolist() == pytest.approx([1 / 1.02] * 12)
    assert compare.changes(sides[0], sides[0], {})["ratio"].tolist() == [1] * 12  # what is given is left as it is


def test_rungs_that_were_slowed_are_found_and_others_are_not(tmp_path):
    sizes = {"problems": [(256, 256, 256), (4096, 4096, 4096)], "kernels": ("10_block_tile_128", "16_thin_edge", "cublas")}
    before = synthetic.write(tmp_path / "as-it-is", 1, **sizes)
    after = synthetic.write(tmp_path / "slowed", 2, slower={"16_thin_edge": 1.02}, **sizes)
    shares = power.shares(power.compared(before, after))
    # warm and sustained; at 4096 cold is as warm, and 256 is too small to count
    assert (shares["slowed"], shares["found"]) == (2, 1.0)
    assert shares["alike"] == 2 * 4
    assert shares["called"] <= 1 / 3
    assert power.shares(power.compared(before, before)) == shares | {"found": 0.0, "called": 0.0}


def test_what_a_campaign_timed_is_told_by_what_was_compiled(tmp_path):
    written(
        tmp_path / "d" / "resources.csv",
        "arch,kernel,element_type,configuration,sha256\nsm_90,03_x,float32,BM=16,abc\nsm_90,03_x,float32,BM=32,def\n"
        "sm_90,03_x,float64,BM=16,ghi\nsm_90,03_x,float32,BM=64,\n",  # the last one was not compiled
    )
    (tmp_path / "build").mkdir()
    binaries = {"sm_90 03_x.float32 BM=16": "abc", "sm_90 03_x.float32 BM=32": "def", "sm_90 03_x.float64 BM=16": "ghi"}
    assert study.binaries(tmp_path) == binaries


@pytest.mark.slow
@pytest.mark.parametrize("number", [number for number, change in enumerate(changes.CHANGES) if change.edits])
def test_changed_rungs_compile(number, tmp_path):
    """tests/published checks that all changes, those of parameters too, fit the kernels."""
    compiles(*changes.changed(changes.CHANGES[number], tmp_path / "kernels"))


def test_a_kernel_is_timed_beside_itself_while_compilers_work(gpu, monkeypatch):
    monkeypatch.setattr(beside, "compiling", lambda arch: nullcontext())
    measured = beside.disturbance(gpu, 2, (64,), 5)
    assert [row["name"] for row in measured["rows"]] == ["cublas", "cuda/03_shared_tile", "cuda/10_block_tile_128"]
    assert all(len(row["ratios"]) == 2 for row in measured["rows"])
    assert all(row["busy_to_quiet"] == pytest.approx(1, abs=0.02) for row in measured["rows"])
    assert [len(measured["wall_seconds"][0][how]) for how in ("quiet", "busy")] == [2, 2]
    assert len(gpu.binaries) == 2


def test_rungs_are_timed_with_operands_at_boundaries_and_elsewhere(gpu, monkeypatch):
    module = SimpleNamespace(SHIFTS=16)
    monkeypatch.setitem(sys.modules, "ladder.devices.cuda_operands", module)
    kernel, seen = KERNELS["cuda/03_shared_tile"], []
    chosen = legal(kernel)[0]
    monkeypatch.setattr(beside, "fastest", lambda dataset: [(Problem(48, 40, 32), kernel.name, chosen)])
    time = gpu.time
    monkeypatch.setattr(gpu, "time", lambda *given: seen.append((beside.operands.GUARD, module.SHIFTS)) or time(*given))
    (row,) = beside.placement(gpu, 2, "some")["rows"]
    assert seen == [(0, 1), (1024, 16), (1024, 16)]
    assert [place["ratio"] for place in (row["aligned"], *row["elsewhere"])] == pytest.approx([1] * 3, abs=0.02)
    assert (row["problem"], row["rung"]) == ("48x40x32", f"03_shared_tile {chosen.label}")


def test_rung_21_is_timed_beside_sgemm_alone_held_and_where_no_chunk_fits(gpu, monkeypatch):
    kernel = KERNELS["cuda/21_tensor_split"]
    labels = [configuration.label for configuration in legal(kernel)]
    rows = [{"kernel": kernel.name, "state": "warm", "problem": "64", "configuration": labels[0]}]
    monkeypatch.setattr(beside.Dataset, "open", lambda *_: SimpleNamespace(best=pd.DataFrame(rows)))
    (row,) = beside.tensor(gpu, 8, beside.HEADLINE, (64,))["rows"]
    assert (row["size"], row["configuration"]) == (64, labels[0])
    assert set(row["held"]) == {"rung_us", "sgemm_us", "rung_j", "sgemm_j"}
    assert all(row[how][name] > 0 for how in ("together", "alone", "unfit") for name in ("rung_us", "sgemm_us"))
    assert row["unfit"]["configuration"] in labels
    assert len(gpu.binaries) == len(labels)


def test_rung_21_is_held_whole_and_by_its_launches_beside_single_products(gpu, monkeypatch):
    kernel = KERNELS["cuda/21_tensor_split"]
    label = legal(kernel)[0].label
    rows = [{"kernel": kernel.name, "state": "warm", "problem": "64", "configuration": label}]
    monkeypatch.setattr(beside.Dataset, "open", lambda *_: SimpleNamespace(best=pd.DataFrame(rows)))
    monkeypatch.setattr(beside, "PRODUCT_TYPE", "float32")  # a CPU simulates the GPU, and multiplies nothing of 16 bits
    monkeypatch.setattr(beside, "PRODUCT_RUNG", "cuda/05_register_tile")
    monkeypatch.setattr(beside, "PRODUCT_TILES", {"one": {}})
    monkeypatch.setattr(gpu.device, "names", {"sm_count": 132})
    prepare, launched = gpu.device.kernel, []

    def seen(kernel, configuration, binary):
        launched.append([shape.function for shape in kernel.launches(configuration, gpu.problem.names() | gpu.device.names)])
        return prepare(kernel, configuration, binary)

    monkeypatch.setattr(gpu.device, "kernel", seen)
    (row,) = beside.power_limit(gpu, 2, beside.HEADLINE, (64,))["rows"]
    assert (row["size"], row["configuration"]) == (64, label)
    held = row["held"] | row["products"]
    assert list(held) == ["whole", "split", "product", "one"]
    assert all(value > 0 for timed in held.values() for value in timed.values())
    assert launched == [["gemm", "product"], ["gemm"], ["product"], ["gemm"]] * 2


def test_a_change_is_timed_beside_what_was_changed(gpu, monkeypatch):
    change = replace(next(change for change in changes.CHANGES if change.parameters and not change.other), problem=(64, 32, 48))
    kernel = KERNELS[f"cuda/{change.kernel}"]
    base = next(
        configuration
        for configuration in legal(kernel)
        if not change.parameters.items() <= dict(configuration.parameters).items()
    )
    for module in (beside, changes):
        monkeypatch.setattr(module, "as_it_is", lambda _: base)
    monkeypatch.setattr(beside, "CHANGES", [change])
    (row,) = beside.tried(gpu, 5)["changes"]
    assert (row["kernel"], row["what"], row["problem"]) == (change.kernel, change.what, "64x32x48")
    assert row["low"] <= row["ratio"] <= row["high"]
    assert row["base"] != row["configuration"]
    assert len(gpu.binaries) == 2


def test_what_another_harness_needs_is_handed_over(gpu, monkeypatch):
    monkeypatch.setattr(agreement, "MODES", {"warm": ("warm", 50.0), "cold_single": ("cold", 0.0)})
    rows = agreement.ours(gpu, [64])
    assert [row["name"] for row in rows] == ["cublas", "torch.mm", "03_shared_tile", "10_block_tile_128"]
    assert all(set(row["ours"]) == set(agreement.MODES) and min(row["ours"].values()) > 0 for row in rows)
    assert all(set(row["how"]) == {"cubin", "grid", "block", "shared"} for row in rows[2:])
    assert len({row["how"]["cubin"] for row in rows[2:]}) == 2


def test_a_change_that_is_not_correct_loses_nothing_of_the_others(monkeypatch):
    row = {"ratio": 1.1, "low": 1.05, "high": 1.15}
    measured = Mock(side_effect=[row, InputError("incorrect: an element is off"), *[row] * (len(changes.CHANGES) - 2)])
    monkeypatch.setattr(beside, "change_beside_rung", measured)
    assert beside.tried(None, 1) == {"changes": [row] * (len(changes.CHANGES) - 1), "faults": ["incorrect: an element is off"]}


def test_what_is_measured_is_written_though_a_change_is_not_correct(monkeypatch):
    measured, written = {"changes": [], "faults": ["incorrect: an element is off"]}, []
    bench = SimpleNamespace(here=None, uuids=[], binaries={}, device=SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(beside, "Bench", lambda *_: bench)
    monkeypatch.setitem(beside.CASES, "tried", ("cuda", 1, lambda *_: measured, ""))
    monkeypatch.setattr(study.Study, "write", lambda self, device, measured, **_: written.append((self.name, measured)))
    monkeypatch.setattr("sys.argv", ["beside.py", "tried"])
    with pytest.raises(InputError, match="incorrect: an element is off"):
        beside.main()
    assert written == [("tried", measured)]
