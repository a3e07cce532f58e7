"""A kernel that misbehaves is a row and harms no other: on the CPU in a campaign, on a fake GPU in a measure job."""

import json
import shutil

import faults
import pytest
from ladder import campaign, measure, records
from ladder.kernels import discover
from planted import ROOT, c_kernel

CAMPAIGN = """
campaign: faults
devices: [cpu]
architectures: [sm_80]
kernels: ["cpu/9*"]
problems: {cpu: [{square: 48}]}
measure: {min_samples: 30, max_samples: 30, target: 0.000001, sample_us: 0, timeout_seconds: 3}
"""


def test_the_page_of_faults_is_that_of_the_tests():
    assert faults.DOCUMENT.read_text() == faults.document()
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert all(f"def {fault.body}(" in tests for fault in faults.MACHINE.values())


def test_on_the_cpu(project):
    """All faults are configurations of one kernel, timed side by side where they pass verification."""
    sweep = f"parameters: {{F: 0}}\nsweep: {{F: {list(range(len(faults.CPU)))}}}\n---*/\n#include <signal.h>\n#include <stdio.h>"
    project.write("kernels/cpu/90_faults.c", c_kernel("faults", faults.one_kernel(faults.CPU)).replace("---*/", sweep, 1))
    project.write("kernels/cpu/91_syntax.c", c_kernel("syntax", faults.SYNTAX.body))
    project.ok("--configfile", project.campaign(CAMPAIGN), "--until", "aggregate")
    summary = project.table("faults/*/summary.csv")
    assert len(summary) == len(faults.CPU) + 1 + 2
    for configuration, fault in [("-", faults.SYNTAX), *((f"F={n}", fault) for n, fault in enumerate(faults.CPU.values()))]:
        rows = summary[summary["kernel"].str.match("9") & (summary["configuration"] == configuration)]
        (row,) = rows.to_dict("records")
        assert row["status"] == fault.status, row
        assert fault.reason in str(row["reason"]), row
        assert (row["tflops"] > 0) == (fault.status == "correct"), row


@pytest.fixture
def fake_job(tmp_path, monkeypatch):
    """A measure job of ten configurations on the fake GPU, given what each launch does; returns the rows that it wrote."""
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    (tmp_path / "kernels" / "cuda").mkdir(parents=True)
    (tmp_path / "kernels" / "cuda" / "90_fake.cu").write_text(
        "/*---\ntitle: fake\nidea: fake\nblock: [1]\ngrid: [1]\nparameters: {U: 1}\nsweep: {U: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}\n---*/\n"
    )
    monkeypatch.setattr(measure, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests" / "fake"))
    monkeypatch.setenv("FAKE_GPU", str(tmp_path / "gpu.json"))

    def run(body: str, others: tuple[int | None, ...] = (0,)) -> list[dict[str, object]]:
        plan = campaign.load(
            {"campaign": "fake", "problems": {"cuda": [[5, 6, 7]]},
             "measure": {"min_samples": 4, "max_samples": 4, "target": 1e-9, "sample_us": 0, "timeout_seconds": 2}},
            "fake", discover(tmp_path),
        )  # fmt: skip
        (tmp_path / "gpu.json").write_text(json.dumps({"uuids": ["GPU-fake"], "others": others}))
        shutil.rmtree(tmp_path / "build", ignore_errors=True)
        (tmp_path / "build").mkdir()
        (tmp_path / "build" / "any.cubin").write_text(body)
        binaries = {
            configuration.slug: {"status": "compiled", "sha256": body, "binary": "any.cubin"}
            for configuration, _ in plan.configurations["cuda/90_fake"]
        }
        job = measure.Job(
            "fake", "cuda", plan.plan("cuda", "90_fake.float32"), binaries, tmp_path / "build", ROOT / "Snakefile", {}, "code"
        )
        measure.run(job, tmp_path / "fake.journal", tmp_path / "fake.parquet", ["GPU-fake"])
        return records.read(tmp_path / "fake.parquet")[0]

    return run


def strikes(names, when):
    """What the fake GPU does at a launch: configuration U = n has the n-th of some faults, at its verification or while it is timed."""
    launch = "== 1" if when == "verified" else ">= 3"
    lines = [f"if U == {n} and call {launch}: {faults.FAKE[name].body}" for n, name in enumerate(names, 1)]
    return "\n".join(["right()", *lines])


@pytest.mark.parametrize("when", ["verified", "timed"])
@pytest.mark.parametrize("names", [list(faults.FAKE), ["illegal"]], ids=["all", "one"])
def test_on_a_gpu_the_culprits_of_a_group_are_found(fake_job, names, when):
    rows = fake_job(strikes(names, when))
    assert [row["configuration"] for row in rows] == [f"U={n}" for n in range(1, 11)]
    for row, name in zip(rows, names, strict=False):
        fault = faults.FAKE[name]
        assert row["status"] == fault.status
        assert fault.reason in row["reason"]
        assert row["reason"].startswith("while timed: ") == (when == "timed")
        assert row["samples_us"] is None
    for row in rows[len(names) :]:
        assert (row["status"], len(row["samples_us"])) == ("correct", 4)


def test_a_result_that_is_wrong_nan_or_outside_on_a_gpu(fake_job):
    body = "right()\nif U == 2: c[2000] = 1\nif U == 3: c[1030] = float('nan')\nif U == 4: c[1030] += 1"
    rows = {row["configuration"]: row for row in fake_job(body)}
    told = [rows[f"U={u}"]["reason"] for u in (2, 3, 4)]
    assert "outside C" in told[0]
    assert "NaN" in told[1]
    assert "off by" in told[2]
    assert [row["status"] for row in rows.values()] == ["correct", *["incorrect"] * 3, *["correct"] * 6]


@pytest.mark.parametrize(("others", "marks"), [((0,), {0}), ((None,), {None}), ((0, 0, 3, 0), {0, 3}), ((2, 0), {0, 2})])
def test_another_process_on_the_gpu_is_noticed_and_marked(fake_job, others, marks, capfd):
    rows = fake_job("right()", others)
    assert {row["other_processes"] for row in rows} >= marks
    assert {row["status"] for row in rows} == {"correct"}
    said = capfd.readouterr().err
    assert said.count("fake: another process computes on GPU-fake; what is timed meanwhile is marked") == bool(marks - {0, None})
