"""Is the newest cuBLAS faster, shape by shape, and does it emulate float32 by products of bfloat16?

    .venv/bin/snakemake --cores 8 --config campaign=cublas-versions
    .venv/bin/python studies/cublas_versions.py results/cublas-versions

Words the answer from the datasets of that campaign, one for each version, on the machine that measured them. The
last one that the campaign names is the newest. Emulation is engaged if the results are not those of float32:
the same operands then have another error.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import answer
import pandas as pd
from answer import command_line
from ladder.analysis.compare import changes
from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import limits
from ladder.core.files import ROOT
from ladder.core.stats import geometric_mean
from ladder.devices.detect import here
from ladder.model.baselines import OF_LIBRARY
from ladder.storage.dataset_layout import PUBLISHED

QUESTION = "Is the newest cuBLAS faster, shape by shape, and does it emulate float32?"
REFERENCE, EMULATED = "cublas", "cublas_bf16x9"
SAME_ERROR = 1e-6
"""How far errors of the same bits may differ, relatively: their sums have no fixed order."""


def version_of(dataset: Dataset) -> str:
    """The version of cuBLAS of a dataset."""
    return str(dataset.environment["fingerprint"]["nvidia-cublas"])


def measure(datasets: Sequence[Dataset]) -> dict[str, Any]:
    """What the study measured: each older version beside the newest, and the emulation of all."""
    *others, newest = sorted(datasets, key=lambda each: _numbers(version_of(each)))
    return {
        "newest": version_of(newest),
        "older": [beside(older, newest) for older in others],
        "emulation": [emulation(dataset) for dataset in (*others, newest)],
    }


def _numbers(version: str) -> list[int]:
    return [int(number) for number in version.split(".")]


def beside(older: Dataset, newest: Dataset) -> dict[str, Any]:
    """The newest version over an older one: for each element type and problem the ratio of cuBLAS,
    and that of the kernels, which are the same.
    """
    known = limits(ROOT / PUBLISHED, older.environment, newest.environment, "time_")
    rows = changes(older, newest, known).query("state == 'warm'")
    names = ["element_type", "problem", "ratio", "low", "high", "verdict"]
    kernels = rows[rows["binary"] == "same"]
    return {
        "version": version_of(older),
        "rows": rows.loc[rows["kernel"] == REFERENCE, names].to_dict("records"),
        "kernels": _mean(kernels["ratio"]),
    }


def _mean(ratios: Iterable[float]) -> float | None:
    known = list(ratios)
    return geometric_mean(known) if known else None


def emulation(dataset: Dataset) -> dict[str, Any]:
    """On how many problems the results of emulated float32 are others than those of float32, and how
    fast it is beside it.
    """
    best = dataset.best[dataset.best["element_type"] == "float32"]
    best = best[best["state"] == "warm"]
    own, emulated = (
        best[best["kernel"] == name].set_index("problem") for name in (REFERENCE, EMULATED)
    )
    errors = pd.DataFrame({"own": own["frobenius_error"], "emulated": emulated["frobenius_error"]})
    others = [
        not math.isclose(row["own"], row["emulated"], rel_tol=SAME_ERROR)
        for row in errors.dropna().to_dict("records")
    ]
    ratios = emulated["ratio"].dropna()
    return {
        "version": version_of(dataset),
        "problems": len(others),
        "other_results": sum(others),
        "ratio": _mean(ratios),
    }


def short(measured: Mapping[str, Any]) -> str:
    """The answer in a few words."""
    rows = measured["older"][0]["rows"]
    faster = sum(row["verdict"] == "faster" for row in rows)
    return f"It is faster on {faster} of {len(rows)} problems"


def long(measured: Mapping[str, Any]) -> str:
    """The answer in a few sentences."""
    texts = []
    for older in measured["older"]:
        for element_type in dict.fromkeys(row["element_type"] for row in older["rows"]):
            rows = [row for row in older["rows"] if row["element_type"] == element_type]
            verdicts = [row["verdict"] for row in rows]
            ends = [min(rows, key=_ratio), max(rows, key=_ratio)]
            least, most = (f"{row['ratio']:.3f} at {row['problem']}" for row in ends)
            texts.append(
                f"in {element_type}, {measured['newest']} is {_mean(map(_ratio, rows)):.3f} times "
                f"as fast as {older['version']} (geometric mean of {len(rows)} problems; {least} "
                f"to {most}): faster on {verdicts.count('faster')}, slower on "
                f"{verdicts.count('slower')}"
            )
        if older["kernels"]:
            texts.append(f"the same kernels beside both, {older['kernels']:.3f} times")
    for each in measured["emulation"]:
        if each["problems"]:
            done = "engages" if each["other_results"] else "does not engage"
            texts.append(
                f"BF16x9 {done} in {each['version']}: other results than float32 on "
                f"{each['other_results']} of {each['problems']} problems, "
                f"{each['ratio']:.3f} times as fast"
            )
    return "; ".join(texts)


def _ratio(row: Mapping[str, Any]) -> float:
    return float(row["ratio"])


def main() -> None:
    """Read the datasets, and write the answer."""
    parser = command_line(__doc__)
    parser.add_argument("campaign", type=Path, help="the folder of its datasets")
    folder = parser.parse_args().campaign
    datasets = [Dataset.open(path) for path in sorted(folder.glob(f"*{OF_LIBRARY}*"))]
    measured = measure(datasets)
    device = here(datasets[0].environment["device"].split(OF_LIBRARY)[0])
    uuids = sorted({each.environment["attributes"]["uuid"] for each in datasets})
    words = short(measured), long(measured)
    answer.write("cublas_versions", QUESTION, *words, device, measured, uuids=uuids)


if __name__ == "__main__":
    main()
