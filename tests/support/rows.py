"""Rows of sample files with made-up times, and the tables of them."""

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import synthetic
from ladder.analysis.dataset import Dataset
from ladder.storage import samples

NEAR = [1.0, 1.001, 0.999]
"""Levels of processes that are not distinguishable."""


def row(**given):
    base = dict.fromkeys(samples.SCHEMA.names) | {"alpha": 1.0, "beta": 0.0, "padding": 0}
    base |= {
        "device": "d",
        "kernel": "k",
        "configuration": "-",
        "element_type": "float32",
        "m": 100,
        "n": 100,
        "k": 100,
        "state": "warm",
        "status": "correct",
        "reference": "cublas",
        "samples_us": [2.0] * 10,
        "reference_us": [1.0] * 10,
    }
    return base | given


def tables(rows, within=0.0, binaries=()):
    """The tables of a dataset with these rows, of a GPU of 2000 operations a clock; `binaries` are
    kernels and configurations that are compiled to one binary.
    """
    attributes = {"compute_capability": "9.0", "sm_count": 2000 / 256, "max_sm_clock_mhz": 1980}
    facts = {"fingerprint": {}, "attributes": attributes, "peaks": {"fp32_tflops": 2.0}}
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "environment.json").write_text(json.dumps(synthetic.ENVIRONMENT | facts))
        reports = [f"{kernel},float32,{label},,same\n" for kernel, label in binaries]
        head = "kernel,element_type,configuration,status,sha256\n"
        (folder / "resources.csv").write_text("".join([head, *reports]))
        about = {"fingerprint": {}, "within": within, "jobs": {}}
        if swept := [row for row in rows if not row["process"]]:
            path = folder / "samples" / "float32.parquet"
            path.parent.mkdir()
            samples.write(path, swept, about)
            about["jobs"]["float32"] = hashlib.sha256(path.read_bytes()).hexdigest()
        if confirmed := [row for row in rows if row["process"]]:
            samples.write(folder / "confirmed.parquet", confirmed, about)
        return Dataset.open(folder).tables()


def summarize(rows):
    return tables(rows)["summary"]


def again(kernel, configuration, levels, role="finalist", rounds=6, **given):
    """Rows of the confirmation: a candidate's times in each process, whose rounds share what the
    reference has; with noise of its own.
    """
    rows = []
    for process, level in enumerate(levels, 1):
        random = np.random.default_rng([process, *f"{kernel} {configuration}".encode()])
        shared = np.random.default_rng(process).normal(0, 0.05, rounds)
        times = np.exp(shared + random.normal(0, 1e-4, rounds))
        rows.append(
            row(
                kernel=kernel,
                configuration=configuration,
                role=role,
                process=process,
                samples_us=list(level * times),
                reference_us=list(np.exp(shared)),
                stop="max_samples",
                **given,
            )
        )
    return rows


def swept(*names, kernel="k"):
    """The sweep's rows of a kernel's configurations, all correct."""
    return [
        row(kernel=kernel, configuration=name, frobenius_error=1e-7, stop="target")
        for name in names
    ]


def made(rows, within=0.0):
    """The table of the best."""
    return tables(rows, within=within)["best"]
