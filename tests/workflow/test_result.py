"""What a run says last, and what it leaves alone."""

import os
import re
import subprocess

import pytest
from planted import C_RIGHT, CU_RIGHT, c_kernel, cuda_kernel

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
    project.write("kernels/cpu/91_wrong.c", c_kernel("wrong", C_RIGHT.replace("k < K", "k < K - 1")))
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
    where, head, cuda, typo, wrong, hint = last(done.first, 6)
    assert re.search(r"executing \(\d+%\); tables and figures in results/tiny/cpu-\S+$", where)
    assert head == "Not right:"
    said = 'cuda/93_typo: compile_error in 2 row(s); BX=8 for sm_80: 93_typo.cu(11): error: identifier "undeclared" is undefined'
    assert cuda == said
    assert re.match(
        r"cpu/92_typo: compile_error in 1 row\(s\); - for cpu-\S+: 92_typo\.c:.* error: .undeclared. undeclared", typo
    )
    assert wrong.startswith("cpu/91_wrong: incorrect in 1 row(s); - on 48: on M=1 N=1 K=1 exact: C[0][0] is not exact")
    assert hint == "`.venv/bin/ladder try kernels/cpu/91_wrong.c` shows the first wrong element"
    table = done.first.stdout[done.first.stdout.index("M=48 N=48 K=48, float32, warm") :]
    assert re.search(r"^  90_right +- +\S+ +\S+ % +\S+ \.\. \S+", table, re.MULTILINE)
    assert re.search(r"Warning: .*/kernels/cpu/wip\.c: taken for no kernel; expected the suffix \.c, ", done.first.stdout)
    assert done.first.stdout.count('error: identifier "undeclared"') == 2  # by the job, once for both configurations, and here


def test_one_kernel_that_is_wrong_is_the_last_line_and_leaves_what_all_kernels_have(done):
    (device,) = done.folder.glob("results/tiny/cpu-*")
    done.write(f"results/tiny/{device.name}/figures/drawn.svg", "a figure of all kernels")
    before = {path: path.stat().st_mtime_ns for path in (done.folder / "results" / "tiny").rglob("*")}
    alone = done.snakemake(*RUN, "--config", "kernels=[cpu/91_wrong]", cores=2)
    assert alone.returncode == 2, alone.stdout[-4000:]
    assert last(alone, 2)[0].startswith("cpu/91_wrong: incorrect in 1 row(s); ")
    assert "Traceback" not in alone.stdout
    assert before == {path: path.stat().st_mtime_ns for path in (done.folder / "results" / "tiny").rglob("*")}
    assert list(done.folder.glob("results/tiny-cpu-91_wrong/cpu-*/best.csv"))


def test_a_wrong_kernel_alone_is_drawn_and_held_against_claims_from_another_folder(done, tmp_path):
    """All that a run makes, where no kernel has a rate."""
    command = [done.python, "-m", "snakemake", "-s", done.folder / "workflow" / "Snakefile", "--cores", "2"]
    command += ["--configfile", done.folder / "config" / "test.yaml", "--config", "kernels=[cpu/91_wrong]"]
    alone = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, env=os.environ | {"NO_COLOR": "1"}
    )  # fmt: skip
    assert alone.returncode == 2, alone.stdout[-4000:]
    assert last(alone, 2)[0].startswith("cpu/91_wrong: incorrect in 1 row(s); ")
    assert "Traceback" not in alone.stdout
    made = tmp_path / "results" / "tiny-cpu-91_wrong"
    (device,) = made.glob("cpu-*")
    assert all(path.exists() for path in (made / "index.html", device / "claims.json", device / "figures", device / "best.csv"))


def test_what_failed_because_of_the_compiler_is_compiled_once_that_is_mended(done, monkeypatch):
    full = done.folder / "full"
    full.touch()
    done.write("kernels/cpu/95_fresh.c", c_kernel("fresh", C_RIGHT))
    fake = f'#!/bin/sh\n[ -e {full} ] && [ "$1" != --version ] && echo \'as: not found\' >&2 && exit 1\nexec gcc "$@"\n'
    done.write("bin/cc", fake).chmod(0o755)
    monkeypatch.setenv("CC", str(done.folder / "bin" / "cc"))
    command = (*RUN, "--config", "kernels=[cpu/95_fresh]")
    failed = done.snakemake(*command)
    assert failed.returncode == 1
    assert "Traceback" not in failed.stdout
    assert re.search(r"^Error: the compiler refuses .*: as: not found$", failed.stdout, re.MULTILINE), failed.stdout
    full.unlink()
    done.ok(*command)
    (resources,) = done.folder.glob("results/tiny-cpu-95_fresh/build/cpu-*/95_fresh/resources.csv")
    assert ",compiled," in resources.read_text()


def test_a_cuda_kernel_alone_is_compiled_where_there_is_no_gpu(done):
    done.write("kernels/cuda/94_right.cu", cuda_kernel("right", CU_RIGHT))
    alone = done.snakemake(*RUN, "--config", "kernels=[cuda/94_right]", "devices=auto")
    assert alone.returncode == 0, alone.stdout[-4000:]
    assert "compiled and not measured, without a device to run on: 1 kernel(s) for sm_80" in last(alone, 3)


def test_an_architecture_that_there_is_not_is_the_campaigns_mistake(done):
    refused = done.snakemake(*RUN, "--config", "architectures=[sm_80,sm_999]")
    assert refused.returncode == 1
    assert re.search(
        r"Error: config/test\.yaml and --config: architectures\[1\]: got .sm_999.; expected one that .*sm_90", refused.stdout
    )
    assert "Traceback" not in refused.stdout


def test_what_a_failed_job_says_is_said_last(done):
    (journal,) = done.folder.glob("results/tiny/cpu-*/journals/90_right.float32.journal")
    whole = journal.read_text()
    journal.write_text("what is this\n")
    failed = done.snakemake(*RUN, "--forcerun", "measure", "--until", "measure")
    journal.write_text(whole)
    assert failed.returncode == 1
    said = [line for line in failed.stdout.splitlines() if line.startswith("Error: ")]
    assert len(said) == 2
    assert "90_right.float32.journal: line 1: damaged" in said[1]
    assert "Finished" not in failed.stdout[failed.stdout.rindex(said[1]) :]


def test_a_run_that_finds_all_of_it_made_ends_as_the_one_that_made_it(done):
    first, again = (done.snakemake("--configfile", "config/test.yaml", cores=2) for _ in range(2))
    assert first.returncode == again.returncode == 2, again.stdout[-4000:]
    assert "1 of 1 steps (100%) done" in again.stdout
    end = again.stdout[again.stdout.index("steps (100%) done") :]
    assert first.stdout.endswith(end)
    assert "cpu/91_wrong: incorrect in 1 row(s); " in end


def test_where_nothing_can_be_written_is_a_line(project):
    snakefile = project.folder / "workflow" / "Snakefile"
    command = [project.python, "-m", "snakemake", "-s", snakefile, "--cores", "1", "-n"]
    refused = subprocess.run(command, cwd="/proc", capture_output=True, text=True, check=False, timeout=600)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stdout + refused.stderr
    assert re.search(
        rf"^Error: /proc: cannot be written: .*; expected a folder for results: .* -s {snakefile} ", refused.stderr, re.MULTILINE
    )
