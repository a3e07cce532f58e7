"""Every study has a question and words its answer, and is in the guide; those that need no GPU run."""

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
from itertools import product
from types import SimpleNamespace

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
from ladder.compiling import compilers
from ladder.core.errors import InputError
from ladder.devices import detect
from ladder.model.kernel_file import discover
from ladder.model.problem import Problem
from ladder.publishing import page_answers, pages
from ladder.publishing.page_data import Story
from planted import ROOT
from simulated import support

KERNELS = discover(ROOT)
LAUNCHES = {"warm": 102.0, "cold": 97.0, "cold_long": 101.0, "cold_single": 110.0}
THEIRS = {"configurations": 110, "version": "1.5.0"}
COST = {"measure_s": 200.0, "busy_share": 0.8, "peak_host_memory_gb": 1}
MEASURED = {
    "adversary": (
        {"tried": 12345, "seconds": 600.2, "spoiled": 0, "worst": {"share": 0.21, "units": 18.3, "sgemm_units": 26.1}},
        "12,345 600 0 21 18.3 26.1",
    ),
    "agreement": (
        {"rows": [{"size": 512, "name": "cublas", "ours": LAUNCHES, "theirs": dict.fromkeys(LAUNCHES, 100.0)}],
         "context": [{"size": 512, "name": "torch.mm", "ours": {"warm": 99}, "theirs": {"warm": 100, "cold": 100}}],
         "second_stream": [{"size": 512, "name": "cublas", "warm": 103, "cold": 107},
                           {"size": 512, "name": "torch.mm", "warm": 104, "cold": 105}]},
        "512 +2.0 -3.0 +1.0 +10.0 -1.0 +7.0",
    ),
    "benchmark": (
        {"campaign_s": 400.0, "confirm_share": 0.31, "gauntlet_share": 0.06, "nothing_to_do_s": 2.0, "campaign_mb": 12.3,
         "environment_mb": 2190.0, "measure_jobs": {"d": COST}},
        "400 31.0 6.0 2.0 12 2.2 80 200 2",
    ),
    "checks": (
        {"tests": {"a": "passed", "b": "passed", "c": "failed"}, "sanitizer": {"memcheck": {"errors": 0, "launches": 180}}},
        "2 1 0 0 180",
    ),
    "disturbance": (
        {"cores": 16, "pairs": 6, "rows": [{"busy_to_quiet": 1.001}, {"busy_to_quiet": 0.997}]},
        "16 6 -0.30 2",
    ),
    "faults": (
        {"faults": [{"what": "an endless loop", "as_told": False}, {"what": "NaN", "as_told": True}]},
        "2",
    ),
    "fuzz": (
        {what: {"answered": 1000, "refused": 234} for what in ("expressions", "headers", "campaigns")},
        "1,234 1,234 1,234",
    ),
    "kernel_tuner_compare": (
        {"kernel": "cuda/06_x", "runs": [{"cores": 1, "kernel_tuner": THEIRS, "faster": 2.04, "faster_without_compiling": 1}]},
        "06 1.5.0 110 2.0 1 1.0",
    ),
    "kernel_tuner_times": (
        {"size": 2048, "ours_us": 100.0, "like_it_us": 103.0, "kernel_tuner_us": {"nvcuda": 104.0},
         "effects": {"launched": {"host": [1.02, 1.01, 1.03]}, "values": {"constant": [0.99, 0.98, 1.0]}}},
        "2048 +3.0 +4.0 +2.0 -1.0",
    ),
    "kill": (
        {"kills": 50, "measurements_a_campaign": 28, "measurements_lost": 0, "measurements_begun_again": 18},
        "50 28 6 95 18",
    ),
    "neighbours": (
        {"cores": 2, "sizes": [256, 1024], "pairs": 6, "rows": [{"beside": 1.004, "unsettled": 1.3}, {"beside": 0.99, "unsettled": 1}]},
        "2 03 256 1024 -1.0 6 +30.0",
    ),
    "placement": (
        {"rows": [
            {"aligned": {"ratio": 1.21, "cublas_us": 100, "rung_us": 80}, "elsewhere": [{"cublas_us": 103, "rung_us": 79.6}]},
            {"aligned": {"ratio": 0.99, "cublas_us": 10, "rung_us": 10}, "elsewhere": [{"cublas_us": 10, "rung_us": 10}]},
        ]},
        "2 1 2 ×1.100 +3.0 -0.5",
    ),
    "registers": (
        {"patterns": [{"measured": 0.5, "model": 0.49}, {"measured": 0.98, "model": 1}], "write_back": {"4": 1, "8": 1.5, "16": 4},
         "unwaited": {"4": 0.1, "8": 1.08, "16": 1.8},
         "lengths": [{"multiply_adds": 512, "clocks": 1.01}, {"multiply_adds": 8192, "clocks": 1.25}]},
        "2 +2.0 0.50 0.98 4 8 16 1.00 1.50 4.00 0.10 1.08 1.80 1.01 8 1.25 128",
    ),
    "tried": (
        {"changes": [{"low": 0.9, "high": 0.95}, {"low": 1.01, "high": 1.02}, {"low": 0.99, "high": 1.01}]},
        "3 1 1",
    ),
    "repeat": (
        {"runs": [{}, {}], "machines": 2, "same_machine": {"pairs": 0}, "same_held_out": {"pairs": 0},
         "other_machine": {"pairs": 2, "rows": 200, "covered": 0.955},
         "held_out": {"pairs": 2, "rows": 400, "covered": 0.93, "least": {"of": "GPU-74c4c37d-bdf1", "rows": 10, "covered": 0.8}},
         "twins": {"pairs": 40, "called_different": 0.025, "interval_leaves_out_1": 0.075},
         "null": {"pairs": 0}},
        "2 2 95.5 200 2 93.0 400 2 80.0 10 74 2.5 40 7.5 1",
    ),
    "elsewhere": (
        {"states": {"reproduced": 12, "not reproduced": 1}, "not_reproduced": ["gains:a:b"], "took_part": False, "seconds": 250.4},
        "12 1 250",
    ),
    "saves": (
        {"kind": "cuda", "first_s": 12.3, "again_s": 2.0, "watch_s": 0.5, "campaign_s": 21.0},
        "2.0 12.3 0.5 21.0",
    ),
    "several_gpus": (
        {"cores": 8, "runs": [{"gpus": 4, "wall_s": 100.0}, {"gpus": 1, "wall_s": 400.0}]},
        "100 4 400 8",
    ),
    "slowed": (
        {"kernel": "15_x", "percent": 3, "slowed": {"not reproduced": ["ratio-x", "b"]}, "as_it_is": {"not reproduced": []}},
        "15 3",
    ),
    "tensor": (
        {"held_seconds": 3.0, "rows": [
            {"size": 1000, "together": {"rung_us": 50, "sgemm_us": 100}, "alone": {"rung_us": 50, "sgemm_us": 90},
             "held": {"rung_us": 40, "sgemm_us": 100, "rung_j": 0.5, "sgemm_j": 1.25}, "unfit": {"rung_us": 100, "sgemm_us": 51}},
        ]},
        "1000 ×2.00 ×1.80 ×2.50 3 1000 50 0.5 20 1.25 ×0.51",
    ),
    "two_percent": (
        {"percent": 2, "slowed": 40, "found": 0.95, "alike": 10, "called": 0.1, "rows": []},
        "40 2 1024 95.0 10 10.0",
    ),
    "thin": (
        {"side": 1024, "lines": [{"fixed_us": 450.0, "row_us": 9.9}, {"fixed_us": 270.0, "row_us": 10.3}]},
        "1024 450 9.9 04 270 10.3 60",
    ),
    "false_positives": (
        {"device": "d", "machines": [], "alike": 400, "called": 0.03, "sure": 0,
         "held_out": {"alike": 200, "called": 0.04}, "slowed": 100, "found": 0.95},
        "3.0 400 0.0 4.0 200 100 1024 2 95.0",
    ),
}  # fmt: skip
"""What each could have measured, and the numbers that its answer must have, in order."""


@pytest.mark.parametrize("name", MEASURED)
def test_an_answer_has_the_measured_numbers(name):
    measured, numbers = MEASURED[name]
    assert re.findall(r"(?<![\w.])[×+-]?\d(?:[\d.,]*\d)?", STUDIES[name].answer(measured)) == numbers.split()


def test_every_study_has_one_form_and_stands_in_the_guide():
    assert sorted(STUDIES) == sorted(MEASURED)
    guide = (ROOT / "CONTRIBUTING.md").read_text().partition("## Studies")[2]
    for name, one in STUDIES.items():
        assert one.question.endswith("?")
        assert f"| `{name}`" in guide
        script = re.search(r"[\w/]+\.py", one.run)
        assert not script or (ROOT / script[0]).exists()
    assert list(STUDIES) == sorted(STUDIES)  # the order of docs/evidence.md


SCRIPTS = sorted({script[1] for one in STUDIES.values() if (script := re.search(r"studies/(\w+)\.py", one.run))})


@pytest.mark.parametrize("name", SCRIPTS)
def test_its_help_is_its_text_and_measures_nothing(name, capsys, monkeypatch):
    assert not (ROOT / "workflow" / "scripts" / f"{name}.py").exists()  # which would be imported in its place, by a job
    module = importlib.import_module(name)
    monkeypatch.setattr(sys, "argv", [one := f"{name}.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        module.main()
    told = capsys.readouterr().out
    assert told.startswith(f"usage: {one}")
    assert module.__doc__.strip() in told


def test_without_a_gpu_a_study_that_needs_one_says_so_in_a_line():
    command = [sys.executable, ROOT / "studies" / "beside.py", "tried"]
    done = subprocess.run(command, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"Error: No GPU found\. Check .*\n", done.stderr)


@pytest.fixture
def answered(tmp_path, monkeypatch):
    """A checkout with one study and a committed answer to it; returns the folder, the study and the answer's path."""
    only = study.Study("checks", "How many?", lambda n: f"{n} of them", lambda n: f"{n}", "run it")
    monkeypatch.setattr(study, "ROOT", tmp_path)
    monkeypatch.setattr(page_answers, "STUDIES", {"checks": only})
    path = only.write(detect.detect_cpu(), 3, binaries={"a": "sha"}, software={"b": "1"})
    answer = json.loads(path.read_text())
    answer["provenance"]["project"] = {"commit": "abc", "dirty": False}
    committed = tmp_path / "results" / "published" / "studies" / path.name
    committed.parent.mkdir(parents=True)
    committed.write_text(json.dumps(answer))
    return tmp_path, only, committed


def test_an_answer_says_where_it_comes_from(answered, capsys):
    _, _, committed = answered
    here = detect.detect_cpu()
    assert committed.name == f"checks.{here.slug}.json"
    answer = json.loads(committed.read_text())
    assert (answer["question"], answer["measured"]) == ("How many?", 3)
    provenance = answer["provenance"]
    assert (provenance["name"], provenance["binaries"], provenance["software"]) == (here.name, {"a": "sha"}, {"b": "1"})
    assert {"time", "project", "command", "host", "python", "compiler"} <= set(provenance)


def test_the_evidence_has_the_committed_answers(answered):
    folder, _, committed = answered
    text, here = "<!-- table: answers -->old<!-- end --><!-- table: details -->old<!-- end -->", detect.detect_cpu().slug
    filled = pages.fill(text, Story(folder))
    assert f"| How many? | 3 | `{here}` | [`checks`](#checks) |" in filled
    link = f"[`{committed.name}`](../results/published/studies/{committed.name})"
    assert f"### `checks`\n\nHow many?\n\n- 3 of them (`{here}`)\n\nCommand: `run it`. Data: {link}." in filled
    assert "3 of them" in pages.fill("so: <!-- value: study checks --><!-- end -->", Story(folder))
    committed.unlink()
    filled = pages.fill(text, Story(folder))
    assert "| How many? | Not measured yet | – | [`checks`](#checks) |" in filled
    assert "- not measured yet\n\nCommand: `run it`.\n" in filled


def test_short_answers_are_short():
    for name, (measured, _) in MEASURED.items():
        short = STUDIES[name].short(measured)
        assert 0 < len(short.split()) <= 12, name


@pytest.mark.parametrize("project", [{"commit": "abc", "dirty": True}, {"commit": None, "dirty": None}])
def test_an_answer_that_no_commit_made_is_refused(answered, project):
    folder, only, committed = answered
    answer = json.loads(committed.read_text())
    answer["provenance"]["project"] = project
    committed.write_text(json.dumps(answer))
    with pytest.raises(InputError, match=r"checks.*json: measured from a checkout with changes or without a commit"):
        only.sentences(folder)


def test_what_differs_from_kernel_tuner_is_told_apart():
    """Each factor's effect, from times to which every level adds a share of its own and noise that cells of a round have in common."""
    share = {"queued": 1.01, "host": 1.03, "idle": 1.02, "constant": 0.99, "nvrtc": 1.0, "allocated": 1.005}
    cells = list(product(*beside_kernel_tuner.FACTORS.values()))
    rounds = [
        {cell: noise * 400 * math.prod(share.get(level, 1) for level in cell) for cell in cells} for noise in (0.9, 1, 1.3, 1.1)
    ]
    found = beside_kernel_tuner.effects(rounds)
    assert {level: ratio[0] for levels in found.values() for level, ratio in levels.items()} == pytest.approx(share)
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
    outcomes = {name.rpartition("::")[2]: outcome for name, outcome in read["tests"].items()}
    assert outcomes == {"test_right": "passed", "test_wrong": "failed", "test_broken": "failed", "test_skipped": "skipped"}
    messages = {name.rpartition("::")[2]: message for name, message in read["messages"].items()}
    assert messages.keys() == {"test_wrong", "test_broken"}
    assert re.match(r"AssertionError: because \.+$", messages["test_wrong"])
    assert len(messages["test_wrong"]) == checks.MESSAGE
    assert "assert 0" in messages["test_broken"]
    assert read["sanitizer"] == {"memcheck": {"errors": 2, "launches": 0}}


def test_what_was_said_to_the_claims_is_that_of_the_own_datasets(tmp_path):
    said = [
        ("reproduced", "results/here/gpu"),
        ("not reproduced", "results/here/gpu"),
        ("reproduced", "results/here/gpu"),
        ("not reproduced", "published/same-gpu"),
    ]
    entries = [{"id": f"claim {index}", "state": state, "dataset": dataset} for index, (state, dataset) in enumerate(said)]
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "reproduced.json").write_text(json.dumps(entries))
    found = power.states(tmp_path / "here")
    assert found == {"states": {"reproduced": 2, "not reproduced": 1}, "not_reproduced": ["claim 1"]}


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
    """A bench on a simulated GPU, on a virtual clock."""
    monkeypatch.setattr(beside, "compile_support", lambda *_: support(gpus).read_bytes())
    bench = beside.Bench("cuda", tmp_path)
    yield bench
    bench.device.close()


def test_what_a_campaign_took_is_read_from_its_costs(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "ROOT", tmp_path)
    (tmp_path / "results" / "default" / "d").mkdir(parents=True)
    (tmp_path / "results" / "default" / "d" / "costs.csv").write_text(
        "job,wall_seconds,busy_seconds,gauntlet_seconds,peak_memory_bytes\na,30,20,1.5,1e9\nb,10,8,0.5,2e9\nconfirmed,10,7,,1e9\n"
    )
    found = benchmark.last_campaign()["d"]
    assert found == {"measure_s": 50, "confirm_s": 10, "gauntlet_s": 2, "busy_share": 0.7, "peak_host_memory_gb": 2}


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
    path = tmp_path / "kernels" / f"{name}.cu"
    path.parent.mkdir(parents=True)
    path.write_text(made)
    shutil.copytree(ROOT / "kernels" / "include", tmp_path / "kernels" / "include")
    kernel = discover(tmp_path)[name]
    (one, *_) = [configuration for configuration, objection in kernel.expand({}, ["float32"]) if not objection]
    compiles(kernel, one)


def test_runs_of_the_same_code_are_held_together_and_longer_times_found(tmp_path):
    sizes = {"problems": [(256, 256, 256), (4096, 4096, 4096)], "kernels": ("03_shared_tile", "10_block_tile_128", "cublas")}
    sides = [Dataset.open(synthetic.write(tmp_path / f"run{seed}", seed, **sizes)) for seed in range(3)]
    measured = power.measure_published(tmp_path, {"GPU-0": sides})
    (told,) = measured["machines"]
    assert [one["dataset"] for one in told] == ["run0", "run1", "run2"]
    assert {one["commit"] for one in told} == {synthetic.ENVIRONMENT["project"]["commit"]}
    confirmations = [hashlib.sha256((side.folder / "confirmed.parquet").read_bytes()).hexdigest() for side in sides]
    assert [one["confirmed_sha256"] for one in told] == confirmations
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
    one = synthetic.write(tmp_path / "as-it-is", 1, **sizes)
    other = synthetic.write(tmp_path / "slowed", 2, slower={"16_thin_edge": 1.02}, **sizes)
    rows = power.compared(one, other)
    found = power.shares(rows)
    assert (found["slowed"], found["found"]) == (
        2,
        1.0,
    )  # warm and sustained; at 4096 cold is as warm, and 256 is too small to count
    assert found["alike"] == 2 * 4
    assert found["called"] <= 1 / 3
    assert power.shares(power.compared(one, one)) == found | {"found": 0.0, "called": 0.0}


def test_what_is_said_of_a_slowed_kernel_is_said_of_its_own_campaign(tmp_path):
    entries = [
        {"id": "own", "dataset": "results/reproduce-short-x/d", "state": "not reproduced"},
        {"id": "other", "dataset": "nvidia-h200", "state": "not reproduced"},
        {"id": "more", "dataset": "results/reproduce-short-x/d", "state": "reproduced"},
        {"id": "none", "dataset": "results/reproduce-short-x/d", "state": "not measured yet"},
    ]
    (tmp_path / "reproduce-short-x").mkdir()
    (tmp_path / "reproduce-short-x" / "reproduced.json").write_text(json.dumps(entries))
    assert power.verdicts(tmp_path / "reproduce-short-x") == {
        "not reproduced": ["own"],
        "reproduced": ["more"],
        "not distinguishable": [],
    }


def test_what_a_campaign_timed_is_told_by_what_was_compiled(tmp_path):
    (tmp_path / "d").mkdir()
    rows = [
        "arch,kernel,element_type,configuration,sha256",
        "sm_90,03_x,float32,BM=16,abc",
        "sm_90,03_x,float32,BM=32,def",
        "sm_90,03_x,float64,BM=16,ghi",
        "sm_90,03_x,float32,BM=64,",  # not compiled
    ]
    (tmp_path / "d" / "resources.csv").write_text("\n".join(rows))
    (tmp_path / "build").mkdir()
    found = {"sm_90 03_x.float32 BM=16": "abc", "sm_90 03_x.float32 BM=32": "def", "sm_90 03_x.float64 BM=16": "ghi"}
    assert study.binaries(tmp_path) == found


@pytest.mark.slow
@pytest.mark.parametrize("number", [number for number, change in enumerate(changes.CHANGES) if change.edits])
def test_changed_rungs_compile(number, tmp_path):
    """tests/published checks that all changes, those of parameters too, fit the kernels."""
    compiles(*changes.changed(changes.CHANGES[number], tmp_path / "kernels"))


def test_a_kernel_is_timed_beside_itself_while_compilers_work(gpu, monkeypatch):
    monkeypatch.setattr(beside, "compiling", lambda arch: nullcontext())
    measured = beside.disturbance(gpu, 2, (64,), 5)
    assert [(row["name"], len(row["ratios"])) for row in measured["rows"]] == [
        (name, 2) for name in ("cublas", "cuda/03_shared_tile", "cuda/10_block_tile_128")
    ]
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


def test_a_change_is_timed_beside_what_was_changed(gpu, monkeypatch):
    change = replace(next(one for one in changes.CHANGES if one.parameters and not one.other), problem=(64, 32, 48))
    kernel = KERNELS[f"cuda/{change.kernel}"]
    base = next(
        one for one in legal(kernel) if any(dict(one.parameters)[name] != value for name, value in change.parameters.items())
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

    def measure(bench, change, rounds):
        if change is changes.CHANGES[1]:
            raise InputError("incorrect: an element is off")
        return row

    monkeypatch.setattr(beside, "change_beside_rung", measure)
    measured = beside.tried(None, 1)
    assert measured == {"changes": [row] * (len(changes.CHANGES) - 1), "faults": ["incorrect: an element is off"]}


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
