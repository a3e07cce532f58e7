"""The studies that need no GPU run, and what they measure is read and parted as it should."""

import hashlib
import importlib
import json
import re
import shutil
import subprocess
import sys
from functools import partial

import agreement
import answer
import benchmark
import checks
import power
import pytest
import random_problems
import synthetic
from ladder.analysis import compare
from ladder.analysis.dataset import Dataset
from ladder.compiling import compilers
from ladder.devices.detect import detect_cpu
from ladder.model.kernel import code_digest
from ladder.model.kernel_file import discover
from planted import ROOT, written
from simulated import support

KERNELS = discover(ROOT)
SCRIPTS = {
    "agreement": agreement,
    "benchmark": benchmark,
    "checks": checks,
    "random_problems": random_problems,
}


@pytest.mark.parametrize("name", [*SCRIPTS, "power"])
def test_its_help_is_its_text_and_measures_nothing(name, capsys, monkeypatch):
    # which would be imported in its place, by a job
    assert not (ROOT / "workflow" / "scripts" / f"{name}.py").exists()
    module = importlib.import_module(name)
    monkeypatch.setattr(sys, "argv", [program := f"{name}.py", "--help"])
    with pytest.raises(SystemExit, match="0"):
        module.main()
    output = capsys.readouterr().out
    assert output.startswith(f"usage: {program}")
    assert module.__doc__.strip() in output


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_committed_answer_is_worded_by_its_script(name):
    for path in (ROOT / "results" / "published" / "studies").glob(f"{name}.*.json"):
        committed, script = json.loads(path.read_text()), SCRIPTS[name]
        assert script.long(committed["measured"]) == committed["long"]
        assert (
            not hasattr(script, "short")
            or script.short(committed["measured"]) == committed["short"]
        )


def test_an_answer_has_its_words_its_kernels_and_where_it_is_from(tmp_path, monkeypatch, capsys):
    kernel = KERNELS["cpu/03_blocked"]
    monkeypatch.setattr(answer, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "studies" / "x.py"), "--rounds", "3"])
    path = answer.write("x", "Is it?", "Yes", "it is", detect_cpu(), {"a": 1}, [kernel], uuids=[])
    made = json.loads(path.read_text())
    assert (made["question"], made["short"], made["long"], made["measured"]) == (
        "Is it?",
        "Yes",
        "it is",
        {"a": 1},
    )
    assert made["provenance"]["command"] == "studies/x.py --rounds 3"
    assert made["kernels"] == {kernel.id: code_digest(kernel.text, kernel.includes)}
    assert "Is it? it is" in capsys.readouterr().out


def test_what_the_gpu_tests_found_is_read_from_their_report(tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\ndef test_right(record_property):\n    record_property('tool', "
        "'memcheck')\n    record_property('errors', 2)\n"
        "    record_property('launches', 0)\ndef test_wrong(): assert 0, 'because ' + 999 * "
        "'.'\n@pytest.fixture\ndef broken(): assert 0\n"
        "def test_broken(broken): pass\n@pytest.mark.skip\ndef test_skipped(): pass\n"
    )
    report = tmp_path / "report.xml"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"--junit-xml={report}",
            "-c",
            "/dev/null",
            tmp_path,
        ],
        check=False,
    )
    read = checks.read(report)
    outcomes, messages = (
        {id.rpartition("::")[2]: it for id, it in read[of].items()} for of in ("tests", "messages")
    )
    assert outcomes == {
        "test_right": "passed",
        "test_wrong": "failed",
        "test_broken": "failed",
        "test_skipped": "skipped",
    }
    assert messages.keys() == {"test_wrong", "test_broken"}
    assert re.match(r"AssertionError: because \.+$", messages["test_wrong"])
    assert len(messages["test_wrong"]) == checks.MESSAGE
    assert "assert 0" in messages["test_broken"]
    assert read["sanitizer"] == {"memcheck": {"errors": 2, "launches": 0}}


def test_sizes_are_those_of_files(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a").write_bytes(b"a" * 3000)
    (tmp_path / "b").write_bytes(b"b" * 2000)
    (tmp_path / "link").symlink_to("b")
    assert benchmark.megabytes(tmp_path) == 0.005


def legal(kernel):
    """The configurations of a kernel."""
    return [
        configuration
        for configuration, objection in kernel.expand({}, ["float32"])
        if not objection
    ]


@pytest.fixture
def gpu(tmp_path, gpus, monkeypatch):
    """A bench on a simulated GPU, on a virtual clock; a sample is one launch, however short."""
    monkeypatch.setattr(agreement, "Limits", partial(agreement.Limits, sample_us=0))
    monkeypatch.setattr(agreement, "compile_support", lambda *_: support(gpus).read_bytes())
    bench = agreement.Bench(tmp_path)
    yield bench
    bench.device.close()


def test_what_a_campaign_took_is_read_from_its_costs(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "ROOT", tmp_path)
    (folder := tmp_path / "results" / "default" / "d").mkdir(parents=True)
    lines = [
        "job,wall_seconds,busy_seconds,gauntlet_seconds,peak_memory_bytes",
        "a,30,20,1.5,1e9",
        "b,10,8,0.5,2e9",
    ]
    (folder / "costs.csv").write_text("\n".join([*lines, "confirmed,10,7,,1e9"]))
    costs = benchmark.last_campaign()["d"]
    assert costs == {
        "measure_s": 50,
        "confirm_s": 10,
        "gauntlet_s": 2,
        "busy_share": 0.7,
        "peak_host_memory_gb": 2,
    }


def compiles(kernel, configuration):
    """Without optimization, which would take most of the time."""
    arch, include = kernel.architecture or "sm_90", kernel.path.parents[1] / "include"
    assert compilers._nvrtc(kernel.source(configuration), arch, include, ["--device-debug"])[
        0
    ].startswith(b"\x7fELF")


@pytest.mark.slow
def test_a_kernel_is_slowed_where_it_ends(tmp_path):
    """It still compiles; that it takes longer is seen on a GPU."""
    name = "cuda/15_last_wave"
    source = KERNELS[name].path.read_text()
    made = power.slow_down(source, 3)
    body = made.partition(" gemm(")[2].partition("\n}\n")[0]
    assert (
        body.index("begun = clock64();") < body.index("share<true>") < body.index("< 3 * spent);")
    )
    assert len(made.splitlines()) == len(source.splitlines()) + 3
    written(tmp_path / "kernels" / f"{name}.cu", made)
    shutil.copytree(ROOT / "kernels" / "include", tmp_path / "kernels" / "include")
    kernel = discover(tmp_path)[name]
    compiles(kernel, legal(kernel)[0])


def test_runs_of_the_same_code_are_held_together_and_longer_times_found(tmp_path):
    sizes = {
        "problems": [(256, 256, 256), (4096, 4096, 4096)],
        "kernels": ("03_shared_tile", "10_block_tile_128", "cublas"),
    }
    sides = [
        Dataset.open(synthetic.write(tmp_path / f"run{seed}", seed, **sizes)) for seed in range(3)
    ]
    measured = power.measure_published(tmp_path, {"GPU-0": sides})
    (machine,) = measured["machines"]
    assert [run["dataset"] for run in machine] == ["run0", "run1", "run2"]
    assert {run["commit"] for run in machine} == {synthetic.ENVIRONMENT["project"]["commit"]}
    confirmations = [
        hashlib.sha256((side.folder / "confirmed.parquet").read_bytes()).hexdigest()
        for side in sides
    ]
    assert [run["confirmed_sha256"] for run in machine] == confirmations
    # at 4096 cold is as warm, and launches are sustained
    assert measured["alike"] == 3 * 3 * (2 + 2)
    assert measured["slowed"] == 12 * 3
    assert measured["called"] <= 0.15
    assert measured["found"] >= 0.75
    assert measured["held_out"] == {"alike": 0, "called": None}  # no other machine has made a limit
    both = power.measure_published(
        tmp_path, {"GPU-0": sides, "GPU-1": sides[:2], "GPU-2": sides[:1]}
    )
    assert both["alike"] == measured["alike"] + 3 * (2 + 2)  # each with its own
    assert both["held_out"]["alike"] == both["alike"]
    assert both["held_out"]["called"] <= 0.15
    assert len(both["machines"]) == 2
    late = power.longer(sides[0])
    assert compare.changes(sides[0], late, {})["ratio"].tolist() == pytest.approx([1 / 1.02] * 12)
    # what is given is left as it is
    assert compare.changes(sides[0], sides[0], {})["ratio"].tolist() == [1] * 12


def test_rungs_that_were_slowed_are_found_and_others_are_not(tmp_path):
    sizes = {
        "problems": [(256, 256, 256), (4096, 4096, 4096)],
        "kernels": ("10_block_tile_128", "16_thin_edge", "cublas"),
    }
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
        # the last one was not compiled
        "sm_90,03_x,float64,BM=16,ghi\nsm_90,03_x,float32,BM=64,\n",
    )
    (tmp_path / "build").mkdir()
    binaries = {
        "sm_90 03_x.float32 BM=16": "abc",
        "sm_90 03_x.float32 BM=32": "def",
        "sm_90 03_x.float64 BM=16": "ghi",
    }
    assert answer.binaries(tmp_path) == binaries


def test_what_another_harness_needs_is_handed_over(gpu, monkeypatch):
    monkeypatch.setattr(agreement, "MODES", {"warm": ("warm", 50.0), "cold_single": ("cold", 0.0)})
    rows = agreement.ours(gpu, [64])
    assert [row["name"] for row in rows] == [
        "cublas",
        "torch.mm",
        "03_shared_tile",
        "10_block_tile_128",
    ]
    assert all(
        set(row["ours"]) == set(agreement.MODES) and min(row["ours"].values()) > 0 for row in rows
    )
    assert all(set(row["how"]) == {"cubin", "grid", "block", "shared"} for row in rows[2:])
    assert len({row["how"]["cubin"] for row in rows[2:]}) == 2


def test_a_comment_or_a_header_does_not_change_code(tmp_path):
    include = written(tmp_path / "a.cuh", "int a; // an a\n")
    before = code_digest("/*---\ntitle: T\n---*/\nint  b;", [include])
    include.write_text("/* of c */ int\na;")
    assert code_digest("/*---\ntitle: T\nprecision: tf32\n---*/\n int b; // b", [include]) == before
    assert code_digest("int c;", [include]) != before
