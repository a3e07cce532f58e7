"""What a run prints last, its exit code, and what it leaves alone."""

import re
import shutil
import subprocess

import pytest
from planted import C_RIGHT, CU_RIGHT, c_kernel, cuda_kernel

pytestmark = pytest.mark.slow

CAMPAIGN = """
campaign: tiny
devices: [cpu]
architectures: [sm_80]
kernels: ["cpu/9*", "cuda/9*"]
problems: {cpu: [{square: 48}]}
measure: {min_samples: 5, max_samples: 5, target: 0.5, timeout_seconds: 60}
confirm: {processes: 0}
"""
RUN = ("--configfile", "config/test.yaml", "--omit-from", "figures", "claims", "index")


@pytest.fixture(scope="module")
def done(make_project):
    """A project with kernels that are right, wrong and do not compile, whose campaign was run."""
    project = make_project()
    project.write("kernels/cpu/90_right.c", c_kernel("right", C_RIGHT))
    project.write(
        "kernels/cpu/91_wrong.c", c_kernel("wrong", C_RIGHT.replace("k < K", "k < K - 1"))
    )
    project.write("kernels/cpu/92_typo.c", c_kernel("typo", "int x = undeclared;" + C_RIGHT))
    project.write("kernels/cuda/93_typo.cu", cuda_kernel("typo", "int x = undeclared;" + CU_RIGHT))
    project.write("kernels/cpu/05_unfinished.c", "/*---\ntitle: not chosen")
    project.write("kernels/cpu/wip.c", "int main")
    (project.folder / "kernels" / "cpu" / ".#90_right.c").symlink_to("nobody@nowhere")
    project.campaign(CAMPAIGN)
    project.first = project.snakemake(*RUN, cores=2)
    return project


def last(done, lines):
    """The last lines of what was printed."""
    return done.stdout.rstrip().splitlines()[-lines:]


def test_a_wrong_kernel_beside_a_right_one_is_told_last_and_by_the_exit_code(done):
    assert done.first.returncode == 2, done.first.stdout[-4000:]
    head, *failed, hint = last(done.first, 5)
    wrong, typo, cuda = sorted(failed)
    assert re.search(r"^Kernels correct on cpu-\S+: 1 of 3\.$", done.first.stdout, re.MULTILINE)
    assert head == "Kernels that failed:"
    message = (
        "cuda/93_typo: compile_error in 2 row(s); BX=8 for sm_80: 93_typo.cu(11): error: "
        'identifier "undeclared" is undefined'
    )
    assert cuda == message
    message = (
        r"cpu/92_typo: compile_error in 1 row\(s\); - for cpu-\S+: 92_typo\.c:.* error: "
        r".undeclared. undeclared"
    )
    assert re.match(message, typo)
    assert wrong.startswith(
        "cpu/91_wrong: incorrect in 1 row(s); - on 48: on M=1 N=1 K=1 exact: C[0][0] is not exact"
    )
    assert (
        hint == "`.venv/bin/ladder try kernels/cpu/91_wrong.c --problem 48x48x48` shows the first "
        "incorrect element"
    )
    table = done.first.stdout[done.first.stdout.index("48 × 48 × 48, float32, warm") :]
    assert re.search(r"^  90_right +\S+ +\S+( ± \S+)? +- ", table, re.MULTILINE)
    assert re.search(
        r"Warning: .*/kernels/cpu/wip\.c: ignored; expected the suffix \.c, ", done.first.stdout
    )
    assert done.first.stdout.count('error: identifier "undeclared"') == 1


def test_one_incorrect_kernel_is_drawn_and_named_and_leaves_what_all_kernels_have(done):
    """All that a run makes, though no kernel has a rate. A run that has nothing to do ends in the
    same way.
    """
    results = done.folder / "results"
    (device,) = results.glob("tiny/cpu-*")
    done.write(f"results/tiny/{device.name}/figures/drawn.svg", "a figure of all kernels")
    before = {path: path.stat().st_mtime_ns for path in (results / "tiny").rglob("*")}
    made = results / "tiny-cpu-91_wrong"
    # it need not be compiled and measured once more
    for part in ("build", f"{device.name}/journals"):
        shutil.copytree(results / "tiny" / part, made / part)
    shutil.copy2(device / "environment.json", made / device.name)
    alone, again = (
        done.snakemake(*RUN[:2], "--config", "kernels=[cpu/91_wrong]", cores=2) for _ in range(2)
    )
    assert alone.returncode == again.returncode == 2, alone.stdout[-4000:]
    assert last(alone, 2)[0].startswith("cpu/91_wrong: incorrect in 1 row(s); ")
    assert "Traceback" not in alone.stdout
    assert "Nothing to do: measured " in again.stdout
    first, end = (run.stdout.partition("Gemm Ladder · ")[2] for run in (alone, again))
    assert first.splitlines()[1:] == end.splitlines()[1:]
    assert before == {path: path.stat().st_mtime_ns for path in (results / "tiny").rglob("*")}
    assert all(
        (made / device.name / name).exists()
        for name in ("../index.html", "claims.json", "figures", "best.csv")
    )


def test_where_nothing_can_be_written_is_a_line(project):
    snakefile = project.folder / "workflow" / "Snakefile"
    command = [project.python, "-m", "snakemake", "-s", snakefile, "--cores", "1", "-n"]
    refused = subprocess.run(command, cwd="/proc", capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stdout + refused.stderr
    message = (
        rf"^Error: /proc: cannot be written: .*; expected a folder for results: .* -s {snakefile} "
    )
    assert re.search(message, refused.stderr, re.MULTILINE)
