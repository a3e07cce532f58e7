"""The studies that need no GPU run, and what they measure is read and parted as it should."""

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
import cublas_versions
import gate_rates
import growth
import power
import pytest
import random_problems
import synthetic
from ladder.analysis import compare
from ladder.analysis.dataset import Dataset
from ladder.compiling.compile import compile_kernel
from ladder.devices.detect import detect_cpu
from ladder.model.kernel import Configuration, code_digest
from ladder.model.kernel_file import discover
from planted import HOME, written
from rungs import ALL as KERNELS
from simulated import support

SCRIPTS = {
    script.__name__: script
    for script in (benchmark, checks, cublas_versions, gate_rates, random_problems)
}


@pytest.mark.parametrize("script", [*SCRIPTS.values(), agreement, growth, power])
def test_its_help_is_its_text_and_measures_nothing(script, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["study", "--help"])
    with pytest.raises(SystemExit, match="0"):
        script.main()
    assert script.__doc__.strip() in capsys.readouterr().out


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_committed_answer_is_worded_by_its_script(name):
    for path in (HOME / "results" / "published" / "studies").glob(f"{name}.*.json"):
        committed, script = json.loads(path.read_text()), SCRIPTS[name]
        assert script.long(committed["measured"]) == committed["long"]
        if hasattr(script, "short"):
            assert script.short(committed["measured"]) == committed["short"]


def test_an_answer_has_its_words_its_kernels_and_where_it_is_from(tmp_path, monkeypatch, capsys):
    kernel = KERNELS["cpu/03_blocked"]
    monkeypatch.setattr(answer, "HOME", tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "studies" / "x.py"), "--rounds", "3"])
    path = answer.write("x", "Is it?", "Yes", "it is", detect_cpu(), {"a": 1}, [kernel], uuids=[])
    made = json.loads(path.read_text())
    words = {"question": "Is it?", "short": "Yes", "long": "it is", "measured": {"a": 1}}
    assert made | words == made
    assert made["provenance"]["command"] == "studies/x.py --rounds 3"
    assert made["kernels"] == {kernel.id: code_digest(kernel.text, kernel.includes)}
    assert "Is it? it is" in capsys.readouterr().out


TESTS = """
import pytest
def test_right(record_property):
    for name, value in {"tool": "memcheck", "errors": 2, "launches": 3}.items():
        record_property(name, value)
test_more = test_right
def test_wrong(): assert 0, "because " + 999 * "."
@pytest.fixture
def broken(): assert 0
def test_broken(broken): pass
@pytest.mark.skip
def test_skipped(): pass
"""


def test_what_the_gpu_tests_found_is_read_from_their_report(tmp_path):
    tests, report = written(tmp_path / "test_it.py", TESTS), tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", f"--junit-xml={report}"]
    subprocess.run([*command, tests], check=False)
    read = checks.read(report)
    outcomes = {id.rpartition("::")[2]: outcome for id, outcome in read["tests"].items()}
    assert outcomes == {
        "test_right": "passed",
        "test_more": "passed",
        "test_wrong": "failed",
        "test_broken": "failed",
        "test_skipped": "skipped",
    }
    wrong, broken = read["messages"].values()
    assert re.match(r"AssertionError: because \.+$", wrong)
    assert len(wrong) == checks.MESSAGE
    assert "assert 0" in broken
    assert read["sanitizer"] == {"memcheck": {"errors": 4, "launches": 6}}


@pytest.fixture
def gpu(tmp_path, gpus, monkeypatch):
    """A bench on a simulated GPU, on a virtual clock; a sample is one launch, however short."""
    monkeypatch.setattr(agreement, "Limits", partial(agreement.Limits, sample_us=0))
    monkeypatch.setattr(agreement, "compile_support", lambda *_: support(gpus).read_bytes())
    bench = agreement.Bench(tmp_path)
    yield bench
    bench.device.close()


def test_what_a_campaign_took_is_read_from_its_costs(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "HOME", tmp_path)
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
    shutil.copytree(HOME / "kernels" / "include", tmp_path / "kernels" / "include")
    kernel = discover(tmp_path)[name]
    configuration = Configuration("float32", tuple(kernel.parameters.items()))
    (row,) = compile_kernel(kernel, [(configuration, "")], "sm_90", tmp_path / "build", 1)
    assert row.status == "compiled", row.reason


@pytest.mark.parametrize("name", ["cpu/02_reordered_ikj", "cpu/03_blocked"])
def test_a_slowed_kernel_in_c_compiles(name, tmp_path):
    """That it takes longer is seen where the study runs."""
    shutil.copytree(HOME / "kernels" / "include", tmp_path / "kernels" / "include")
    gate_rates.write(tmp_path, [KERNELS[name]], 2)
    kernel = discover(tmp_path)[name]
    assert "< 2 * spent);" in kernel.text
    configuration = Configuration("float32", tuple(kernel.parameters.items()))
    (row,) = compile_kernel(kernel, [(configuration, "")], "here", tmp_path / "build", 1)
    assert row.status == "compiled", row.reason


SIZES = {"problems": [(256, 256, 256), (4096, 4096, 4096)]}


def test_runs_of_the_same_code_are_held_together_and_longer_times_found(tmp_path):
    kernels = ("03_shared_tile", "10_block_tile_128", "cublas")
    sides = [
        Dataset.open(synthetic.write(tmp_path / f"run{seed}", seed, kernels=kernels, **SIZES))
        for seed in range(3)
    ]
    measured = power.measure_published(tmp_path, {"GPU-0": sides})
    (machine,) = measured["machines"]
    assert [run["dataset"] for run in machine] == ["run0", "run1", "run2"]
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
    kernels = ("10_block_tile_128", "16_thin_edge", "cublas")
    before = synthetic.write(tmp_path / "as-it-is", 1, kernels=kernels, **SIZES)
    slower = {"16_thin_edge": 1.02}
    after = synthetic.write(tmp_path / "slowed", 2, kernels=kernels, slower=slower, **SIZES)
    shares = power.shares(power.compared(before, after))
    # warm and sustained; at 4096 cold is as warm, and 256 is too small to count
    assert (shares["slowed"], shares["found"]) == (2, 1.0)
    assert shares["alike"] == 2 * 4
    assert shares["called"] <= 1 / 3
    same = {"found": 0.0, "called": 0.0, "longer": [0.0, 0.0]}
    assert power.shares(power.compared(before, before)) == shares | same


def test_the_share_that_was_found_has_an_interval_and_its_caveats():
    measured = {"slowed": 28, "found": 26 / 28, "faster": 1, "longer": [-4.34, 4.84], "alike": 9}
    short, long = power.worded_slowed(measured | {"called": 0.0})
    assert short == (
        "26 of 28 in one run (76% to 99% at 95 % confidence). Their times changed by -4.3 to +4.8 %"
    )
    assert "and 1 faster" in long
    assert power.share_interval(0, 10)[0] == pytest.approx(0, abs=1e-9)
    # one less the 10th root of 0.025
    assert power.share_interval(0, 10)[1] == pytest.approx(1 - 0.025**0.1)


def test_what_a_campaign_timed_is_told_by_what_was_compiled(tmp_path):
    rows = ["float32,BM=16,abc", "float64,BM=16,ghi", "float32,BM=64,"]  # the last: not compiled
    lines = "".join(f"sm_90,03_x,{row}\n" for row in rows)
    header = "arch,kernel,element_type,configuration,sha256\n"
    written(tmp_path / "d" / "resources.csv", header + lines)
    binaries = {"sm_90 03_x.float32 BM=16": "abc", "sm_90 03_x.float64 BM=16": "ghi"}
    assert answer.binaries(tmp_path) == binaries


def test_what_another_harness_needs_is_handed_over(gpu):
    rows = agreement.ours(gpu, [64])
    names = [row["name"] for row in rows]
    assert names == ["cublas", "03_shared_tile", "10_block_tile_128"]
    for row in rows:
        assert set(row["ours"]) == set(agreement.STATES)
        assert min(row["ours"].values()) > 0
    for row in rows[1:]:
        assert set(row["how"]) == {"cubin", "grid", "block", "shared"}


def test_a_comment_or_a_header_does_not_change_code(tmp_path):
    include = written(tmp_path / "a.cuh", "int a; // an a\n")
    before = code_digest("/*---\ntitle: T\n---*/\nint  b;", [include])
    include.write_text("/* of c */ int\na;")
    assert code_digest("/*---\ntitle: T\nprecision: tf32\n---*/\n int b; // b", [include]) == before
    assert code_digest("int c;", [include]) != before


def version(folder, number, speed, errors):
    """A dataset of a version of cuBLAS, whose emulation has other errors or not."""
    device = f"nvidia-a-cublas-{number.replace('.', '-')}"
    kernels = ("03_shared_tile", "cublas", "cublas_bf16x9")
    fingerprint = {"nvidia-cublas": number, "uuids": ["GPU-1"]}
    given = {"problems": synthetic.SMALL, "kernels": kernels, "fingerprint": fingerprint}
    made = Dataset.open(synthetic.write(folder / device, 1, device, speed=speed, **given))
    own = made.best[(made.best["kernel"] == "cublas") & (made.best["state"] == "warm")]
    own = own.set_index("problem")["frobenius_error"]
    emulated = made.best["kernel"] == "cublas_bf16x9"
    made.best["frobenius_error"] = made.best["frobenius_error"].where(
        ~emulated, made.best["problem"].map(own) * errors
    )
    return made


@pytest.mark.parametrize(("errors", "engages"), [(1.0, "does not engage"), (1.1, "engages")])
def test_versions_of_cublas_are_compared_by_number_and_emulation_by_its_results(
    tmp_path, errors, engages
):
    newest, oldest = version(tmp_path, "13.10.0.20", 2, errors), version(tmp_path, "13.2.1.1", 1, 1)
    measured = cublas_versions.measure([newest, oldest])
    assert [row["ratio"] for row in measured["rows"]] == pytest.approx([2] * 3, rel=0.02)
    assert measured["kernels"] == pytest.approx(2, rel=0.02)  # so it is not the library
    assert cublas_versions.short(measured) == "It is faster on 3 of 3 problems"
    words = cublas_versions.long(measured)
    assert words.startswith("13.10.0.20 is 2.0")
    assert "as fast as 13.2.1.1" in words and "slower on 0 of 3" in words
    assert f"BF16x9 {engages}: other results than float32 on {3 * (errors > 1)} of 3" in words
