"""Rows of sample files with made-up times, and the tables of them."""

import numpy as np
from ladder.analysis import tables
from ladder.analysis.finalists import Finalists
from ladder.analysis.measurements import labeled
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


def summarize(rows, peak_tflops, per_clock=None):
    records = labeled(rows)
    return tables.summarize(records, Finalists(records, 0.0, peak_tflops, per_clock))


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
    return tables.best(summarize(rows, 2.0), Finalists(labeled(rows), within, 2.0))
