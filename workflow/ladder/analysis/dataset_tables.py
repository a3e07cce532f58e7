"""Every table of a dataset, from its samples, the kernels' headers and what the compiler said."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ladder.analysis.dataset import load
from ladder.analysis.finalists import Confirmed
from ladder.analysis.kernel_model import COLUMNS, KEY, model
from ladder.analysis.tables import best, costs, pairs, references, rounds, summarise
from ladder.model.hardware_limits import flop_per_clock
from ladder.model.kernel import Configuration, Kernel
from ladder.model.problem import Problem
from ladder.storage.csv_files import read_csv
from ladder.storage.dataset_layout import files, read_environment

_NOTHING = pd.DataFrame(columns=["kernel", "slug", "element_type", "configuration", "arch", "status"])


def table(
    summary: pd.DataFrame, kernels: Iterable[Kernel], resources: pd.DataFrame, environment: Mapping[str, Any]
) -> pd.DataFrame:
    """A row for every kernel, configuration and problem that ran. What a kernel does not declare is left empty.

    A kernel whose file is gone, or lacks parameters by now, has no rows.
    """
    by_name = {kernel.name: kernel for kernel in kernels}
    compiled = {
        (row["kernel"], row["element_type"], row["configuration"]): row
        for row in resources.to_dict("records")
        if row["status"] == "compiled"
    }
    rows = []
    for given in summary.drop_duplicates(KEY).to_dict("records"):
        kernel = by_name.get(given["kernel"])
        resource = compiled.get((given["kernel"], given["element_type"], given["configuration"]))
        if kernel is None or resource is None:
            continue
        configuration = Configuration.of(given["element_type"], given["configuration"])
        if not {name for name, _ in configuration.parameters} <= kernel.parameters.keys():
            continue
        problem = Problem(**{name: given[name] for name in KEY[2:]})
        modelled = model(kernel, configuration, problem, resource, environment, given["tensor_cores"])
        rows.append({name: given[name] for name in (*KEY, "problem")} | modelled)
    return pd.DataFrame(rows, columns=COLUMNS)


def compiler_said(paths: Iterable[Path]) -> pd.DataFrame:
    """The rows of several `resources.csv`, all as text. Raises `InputError` for a file that is none."""
    return pd.concat(
        [_NOTHING, *(read_csv(path, ("element_type", "configuration", "status", "sha256"), text=True) for path in paths)]
    )


def dataset_tables(
    samples: Sequence[Path], resources: Sequence[Path], kernels: Iterable[Kernel], environment: Mapping[str, Any]
) -> dict[str, pd.DataFrame]:
    """Every table of a dataset, by name, from its samples, with those of the confirmation, and what the compiler said (`resources.csv`).

    Raises `InputError` as `dataset.load` does.
    """
    records, sessions = load(samples, environment)
    peaks = environment["peaks"]["fp32_tflops"], flop_per_clock(environment)
    summary = summarise(records, *peaks)
    compiled = compiler_said(resources)
    confirmed = Confirmed(records, max(session.get("within", 0.0) for session in sessions), *peaks)
    chosen = best(summary, confirmed)
    return {
        "summary": summary,
        "best": chosen,
        "pairs": pairs(summary, chosen, compiled, confirmed),
        "rounds": rounds(records, chosen),
        "references": references(records),
        "costs": costs(sessions),
        "resources": compiled,
        "models": table(summary, kernels, compiled, environment),
    }


def of_folder(folder: Path, kernels: Iterable[Kernel]) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Every table of the dataset in a folder, by name, and its environment; of `kernels` those of the device's kind are its own."""
    environment = read_environment(folder / "environment.json")
    own = [kernel for kernel in kernels if kernel.kind == environment["kind"]]
    return dataset_tables(files(folder), [folder / "resources.csv"], own, environment), environment
