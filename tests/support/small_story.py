"""A checkout of three small kernels and made-up measurements of two of them, and the pages that are
filled from it.
"""

import hashlib
import json

import synthetic
from ladder.model.problem import Problem
from ladder.storage import samples
from ladder.storage.dataset_layout import PUBLISHED
from planted import written

from book import pages
from book.data import Story

RUN = PUBLISHED / "d" / "test" / "1"
ENVIRONMENT = {
    "device": "d",
    "kind": "cuda",
    "name": "Test",
    "time": "2026-01-01T",
    "fingerprint": {},
    "attributes": {"sm_count": 3, "compute_capability": "9.0", "library": "cuBLAS 1"},
    "peaks": {"fp32_tflops": 0.05, "copy_tb_s": 1.0},
    "project": {"commit": "abc", "dirty": False},
}
COST = {"wall_seconds": 90.0, "busy_seconds": 30.0}
HEADER = (
    "/*---\ntitle: {0}\nidea: i\nparameters: {{{1}}}\nblock: [1]\ngrid: ['ceil_div(M, 16)', "
    "2]\nglobal_reads: 2*M*N*K\n---*/\n"
)


def checkout(root):
    """A checkout of three kernels and a dataset with results of two of them."""
    for name, parameter in (
        ("01_first", "BX: 32"),
        ("02_second", "BM: 16"),
        ("03_third", "BM: 16"),
    ):
        path = root / "kernels" / "cuda" / f"{name}.cu"
        written(path, HEADER.format(name, parameter))
    publish(root)
    return root


def publish(root, second_us=100.0, name="d/test", last=1.0, rungs=("01_first", "02_second")):
    """A dataset of two kernels and the reference on one problem, each timed side by side in three
    processes.

    The last sample of each takes `last` times as long.
    """
    folder = root / PUBLISHED / name / "1"
    (folder / "samples").mkdir(parents=True, exist_ok=True)
    (folder / "environment.json").write_text(json.dumps(ENVIRONMENT))
    columns = "kernel,slug,element_type,configuration,arch,status,sha256"
    (folder / "resources.csv").write_text(f"{columns}\n")
    jobs = {}
    times = {
        rungs[0]: ("BX=32", 200.0, 6.0),
        rungs[1]: ("BM=16", second_us, 5.0),
        "cublas": ("-", 50.0, 2.0),
    }
    base = (
        dict.fromkeys(samples.SCHEMA.names)
        | vars(Problem(64, 64, 64))
        | {
            "device": "d",
            "status": "correct",
            "state": "warm",
            "reference": "cublas",
            "stop": "target",
            "reference_us": [50.0] * 3,
        }
    )
    rows = []
    for kernel, (configuration, us, units) in times.items():
        row = base | {
            "kernel": kernel,
            "configuration": configuration,
            "samples_us": [us, us, us * last],
        }
        row |= {"frobenius_error": units * 2**-24, "component_error": units * 2**-23}
        job = f"{'baselines' if kernel == 'cublas' else kernel}.float32"
        samples.write(folder / "samples" / f"{job}.parquet", [row], {"job": job, "fingerprint": {}})
        jobs[job] = hashlib.sha256((folder / "samples" / f"{job}.parquet").read_bytes()).hexdigest()
        for process in (1, 2, 3):
            noisy = [us * (1 + process * 1e-6) for us in row["samples_us"]]
            rows.append(row | {"process": process, "role": "best", "samples_us": noisy})
    samples.write(
        folder / "confirmed.parquet",
        rows,
        {"job": "confirmed", "jobs": jobs, "fingerprint": {}} | COST,
    )
    synthetic.index(root / PUBLISHED)


def answer(root, study, kernels=None, **measured):
    """Write what a study measured on the dataset's device."""
    provenance = {
        "device": "d",
        "time": "2026-11-23T01:00",
        "command": "x.py",
        "project": {"commit": "abc", "dirty": False},
    }
    words = {"question": "Is it so?", "short": "Yes: 3 times", "long": "it was so 3 times"}
    path = root / PUBLISHED / "studies" / f"{study}.d.json"
    written(
        path,
        json.dumps(
            words | {"kernels": kernels or {}, "provenance": provenance, "measured": measured}
        ),
    )


def say(root, name, **keys):
    """Add keys to the header of a kernel."""
    path = root / "kernels" / "cuda" / f"{name}.cu"
    added = "".join(f"{key}: {value}\n" for key, value in keys.items())
    path.write_text(path.read_text().replace("idea: i\n", f"idea: i\n{added}"))


def fill(marker, root):
    return pages.fill(f"<!-- {marker} -->old<!-- end -->", Story(root))
