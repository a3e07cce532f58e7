"""Whatever a measurement, a table or a figure depends on: when it changes, Snakemake redoes what
depends on it and nothing else.
"""

import os
import re
import shutil
import sys
from multiprocessing import get_context
from pathlib import Path

import pytest
from ladder.devices.detect import detect_cpu
from planted import CU_RIGHT, cuda_kernel

pytestmark = pytest.mark.slow
CAMPAIGN = """
campaign: stale
devices: [cuda, cpu]
architectures: [sm_90]
kernels: [cuda/80_a, cuda/81_b, cpu/02_reordered_ikj]
problems: {cuda: [[5, 6, 7]], cpu: [[33, 17, 65]]}
baselines: {cuda: [cublas]}
measure: {min_samples: 4, max_samples: 4, target: 0.9}
confirm: {processes: 3, rounds: 3}
"""


@pytest.fixture(scope="module")
def done(make_project):
    """A project whose campaign, on a simulated GPU and on the CPU, is complete for Snakemake: its
    results are there, and empty.

    `snakemake --touch` notes for each what a run notes: the inputs, parameters and code.
    tests/workflow/test_documented.py shows that a real run leaves nothing to do.
    """
    project = make_project()
    project.simulate(name="Fake 1")
    project.write("kernels/include/shared.cuh", "#include <inner.cuh>\n")
    project.write("kernels/include/inner.cuh", "// inner\n")
    project.write("kernels/cuda/80_a.cu", cuda_kernel("a", CU_RIGHT) + '#include "shared.cuh"\n')
    project.write("kernels/cuda/81_b.cu", cuda_kernel("b", CU_RIGHT))
    project.campaign(CAMPAIGN)
    outputs = re.findall(r"^ +output: (.*)$", in_a_fork(project, "--dry-run"), re.MULTILINE)
    for path in (project.folder / name for line in outputs for name in line.split(", ")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch() if path.suffix else path.mkdir()
    in_a_fork(project, "--touch", "--forceall", "--no-hooks")  # hooks would print tables
    return project


@pytest.fixture(scope="module")
def kept(done, tmp_path_factory):
    """A copy of all that a case may change, with its times."""
    folder = tmp_path_factory.mktemp("kept")
    for name in ("workflow", "kernels", "config", "results"):
        shutil.copytree(done.folder / name, folder / name)
    shutil.copy2(done.folder / "gpus.json", folder)
    return folder


def restore(folder, kept):
    """Put back every file that is missing or has another time."""
    for path in filter(Path.is_file, kept.rglob("*")):
        here = folder / path.relative_to(kept)
        if not here.exists() or here.stat().st_mtime_ns != path.stat().st_mtime_ns:
            here.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, here)


def _snakemake(project, log, arguments):
    """Snakemake's own main."""
    folder = project.folder
    os.chdir(folder)
    os.environ |= project.environment
    sys.stdout = sys.stderr = log.open("w")  # what pytest has there is not the terminal
    for name in [name for name in sys.modules if name.split(".")[0] == "ladder"]:
        del sys.modules[name]
    sys.path.insert(0, str(folder / "workflow"))
    sys.executable = str(folder / ".venv" / "bin" / "python")
    from snakemake.cli import main

    main(["--configfile", "config/test.yaml", "--cores", "1", "--quiet", "host", *arguments])


def in_a_fork(project, *arguments):
    """What Snakemake prints. It runs in a fork of this process, which need not import it again."""
    import snakemake.cli  # noqa: F401 - before the fork

    log = project.folder / "printed"
    process = get_context("fork").Process(target=_snakemake, args=(project, log, arguments))
    process.start()
    process.join()
    text = log.read_text()
    assert process.exitcode == 0, text[-3000:]
    return text


def would_run(project):
    """The jobs of a dry run, `measure fake-1 80_a`, each with its reason."""
    planned = {}
    for rule, body in re.findall(
        r"^(?:local)?rule (\w+):\n((?: +.*\n)*)", in_a_fork(project, "--dry-run"), re.MULTILINE
    ):
        wildcards = dict(
            re.findall(r"(\w+)=([^,\n]+)", (re.search(r"wildcards: (.*)", body) or [""])[0])
        )
        names = [wildcards.get(name, "") for name in ("device", "arch", "kernel", "job")]
        short = " ".join(filter(None, names)).replace(CPU, "cpu")
        if rule != "all":
            planned[f"{rule} {short}".strip()] = (re.search(r"reason: (.*)", body) or ["", "?"])[1]
    return planned


CPU = detect_cpu().slug


def jobs(device, *rules):
    """Names of jobs, as `would_run` has them."""
    return {f"{rule} {device}" for rule in rules}


DRAWN = ("aggregate", "figures")
TABLES_ON_GPU = jobs("fake-1", *DRAWN)
TABLES = TABLES_ON_GPU | jobs("cpu", *DRAWN)
CONFIRMED_ON_CPU = jobs("cpu", "confirm", *DRAWN)
CONFIRMED_ON_GPU = jobs("fake-1", "confirm", *DRAWN)
CONFIRMED = CONFIRMED_ON_GPU | CONFIRMED_ON_CPU
A = {"compile sm_90 80_a", "measure fake-1 float32.1of3"} | CONFIRMED_ON_GPU
ON_GPU = CONFIRMED_ON_GPU | {f"measure fake-1 float32.{part}of3" for part in (1, 2, 3)}
ON_CPU = CONFIRMED_ON_CPU | {"measure cpu float32"}
PROBED = jobs("fake-1", "probe") | jobs("cpu", "probe")
BUILT_ON_GPU = {"support sm_90", "compile sm_90 80_a", "compile sm_90 81_b", "probe fake-1"}
BUILT_ON_CPU = {"support cpu", "compile cpu 02_reordered_ikj", "probe cpu"}


def edit(old, new):
    return lambda project: project.campaign(CAMPAIGN.replace(old, new))


def append(path, comment):
    return lambda project: project.write(path, (project.folder / path).read_text() + comment)


def module(name):
    return append(f"workflow/ladder/{name}.py", "# changed\n")


def gpu(**changes):
    return lambda project: project.simulate(**{"name": "Fake 1"} | changes)


def older(path, comment):
    """What `cp -p`, `rsync -a` and `tar` leave: other contents with an older time."""

    def change(project):
        append(path, comment)(project)
        os.utime(project.folder / path, (1, 1))

    return change


def from_the_future(path, comment):
    """A clock that was wrong when the results were made."""

    def change(project):
        for made in (project.folder / "results").rglob("*"):
            os.utime(made, (2**32 - 1, 2**32 - 1))
        append(path, comment)(project)

    return change


def remove(*names):
    """Files or folders of the results are lost."""

    def change(project):
        for path in (project.folder / "results" / "stale" / name for name in names):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


OTHER_GPU = {job.replace("fake-1", "fake-2") for job in ON_GPU | {"probe fake-1"}}
PARAMS = "Params have changed"
PLAN = "Updated input files: .*/plans/"
CASES = {
    "nothing": (lambda project: None, set(), ""),
    "a kernel's file": (
        append("kernels/cuda/80_a.cu", "// changed\n"),
        A,
        "Updated input files: .*/kernels/cuda/80_a.cu",
    ),
    "a header in brackets, from a header in quotes": (
        append("kernels/include/inner.cuh", "// changed\n"),
        A,
        "Updated input files: .*inner",
    ),
    "a kernel's file, for one with an older time": (
        older("kernels/cuda/80_a.cu", "// changed\n"),
        A,
        PLAN,
    ),
    "a kernel's file, after results with a time to come": (
        from_the_future("kernels/cuda/80_a.cu", "// changed\n"),
        A,
        PARAMS,
    ),
    "the time of a kernel's file alone": (append("kernels/cuda/80_a.cu", ""), set(), ""),
    "a file of samples, and the description of another device, which are missing": (
        remove("fake-1/samples/float32.1of3.parquet", f"{CPU}/environment.json"),
        A - {"compile sm_90 80_a"} | ON_CPU | {"probe cpu"},
        "Missing output files",
    ),
    "a table, the confirmation of another device and the page, which are missing": (
        remove("fake-1/rounds.csv", f"{CPU}/confirmed.parquet", "index.html"),
        TABLES_ON_GPU | CONFIRMED_ON_CPU,
        "Missing output files",
    ),
    "the figures, and the judged claims of another device, which are missing": (
        remove("fake-1/figures", f"{CPU}/claims.json"),
        {"figures fake-1", "claims cpu", "index"},
        "Missing output files",
    ),
    "what was compiled, which is missing": (remove("build/sm_90/80_a"), A, "Missing output files"),
    "a kernel's list of tiles": (
        edit("measure:", "parameters: {cuda/80_a: {BX: [8]}}\nmeasure:"),
        A,
        PLAN,
    ),
    "the problems of a device kind": (edit("[5, 6, 7]", "[5, 6, 8]"), ON_GPU, PLAN),
    "the limits": (edit("max_samples: 4", "max_samples: 5"), ON_GPU | ON_CPU, PLAN),
    "how is confirmed": (edit("rounds: 3", "rounds: 4"), CONFIRMED, PLAN),
    "the code that confirms": (module("measuring/confirmation"), CONFIRMED, PARAMS),
    "how is timed": (module("measuring/timing"), ON_GPU | ON_CPU | PROBED, PARAMS),
    "how a device is described": (module("measuring/probe"), ON_GPU | ON_CPU | PROBED, PARAMS),
    "how is compiled": (
        module("compiling/compile"),
        BUILT_ON_GPU | BUILT_ON_CPU | ON_GPU | ON_CPU,
        PARAMS,
    ),
    "how tables are made": (module("analysis/tables"), TABLES, PARAMS),
    "how figures are drawn": (module("figures/scaling"), {"figures cpu", "figures fake-1"}, PARAMS),
    "a job's script": (
        append("workflow/scripts/figures.py", "# changed\n"),
        {"figures cpu", "figures fake-1"},
        "Code has changed",
    ),
    "the driver": (gpu(driver="2.0"), ON_GPU | {"probe fake-1"}, PARAMS),
    "the toolkit": (gpu(compiler="nvcc 2.0"), ON_GPU | BUILT_ON_GPU, PARAMS),
    "the GPU, for one of its model": (gpu(uuids=["GPU-2"]), ON_GPU | {"probe fake-1"}, PARAMS),
    "the GPU, for one of another model": (gpu(name="Fake 2"), OTHER_GPU, "Missing output files"),
}


@pytest.mark.parametrize("what", list(CASES))
def test_what_changes_is_noticed_and_reruns_what_depends_on_it(done, kept, what):
    change, expected, reason = CASES[what]
    try:
        change(done)
        reruns = would_run(done)
    finally:
        restore(done.folder, kept)
    claims = {job.replace("aggregate", "claims") for job in expected if "aggregate" in job}
    assert set(reruns) == expected | claims | ({"index"} if claims else set()), reruns
    first = [why for why in reruns.values() if "updated by another job" not in why]
    assert all(re.match(reason, why) for why in first), reruns
    assert bool(first) == bool(expected)
