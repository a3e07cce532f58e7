"""Is the newest cuBLAS faster, shape by shape, and does it emulate float32 by products of bfloat16?

    .venv/bin/snakemake --cores 8 --config campaign=cublas-versions
    .venv/bin/python studies/cublas_versions.py results/cublas-versions

Words the answer from the datasets of that campaign, one for each version, on the machine that measured them: the oldest
and the newest. Emulation is engaged if the results are not those of float32: the same operands then have another error.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import answer
import numpy as np
from answer import command_line
from ladder.analysis.compare import changes
from ladder.analysis.dataset import Dataset
from ladder.analysis.repeatability import limits
from ladder.core.places import HOME
from ladder.core.stats import geometric_mean
from ladder.devices.detect import here
from ladder.model.baselines import OF_LIBRARY
from ladder.storage.dataset_layout import PUBLISHED

QUESTION = "Is the newest cuBLAS faster, shape by shape, and does it emulate float32?"
COLUMNS = ["element_type", "problem", "ratio", "low", "high", "verdict"]
SAME_ERROR = 1e-6
"""How far errors of the same bits may differ, relatively: their sums have no fixed order."""


def version_of(dataset: Dataset) -> str:
    """The version of cuBLAS of a dataset."""
    return str(dataset.environment["fingerprint"]["nvidia-cublas"])


def measure(datasets: Sequence[Dataset]) -> dict[str, Any]:
    """The newest version over the oldest: the ratios of cuBLAS, and the mean of those of kernels,
    which are the same; and on how many problems emulated float32 has other results than float32, and
    how fast it is beside it.
    """
    by_number = {tuple(map(int, version_of(each).split("."))): each for each in datasets}
    oldest, newest = by_number[min(by_number)], by_number[max(by_number)]
    known = limits(HOME / PUBLISHED, oldest.environment, newest.environment, "time_")
    rows = changes(oldest, newest, known).query("state == 'warm'")
    best = newest.best.query("state == 'warm' and element_type == 'float32'").set_index("problem")
    own, emulated = (best[best["kernel"] == name] for name in ("cublas", "cublas_bf16x9"))
    errors = own["frobenius_error"], emulated["frobenius_error"].reindex(own.index)
    return {
        "versions": [version_of(oldest), version_of(newest)],
        "rows": rows.loc[rows["kernel"] == "cublas", COLUMNS].to_dict("records"),
        "kernels": geometric_mean(list(rows.loc[rows["binary"] == "same", "ratio"])),
        "emulated": len(emulated),
        "other_results": int((~np.isclose(*errors, rtol=SAME_ERROR, atol=0)).sum()),
        "emulation": geometric_mean(list(emulated["ratio"])),
    }


def short(measured: Mapping[str, Any]) -> str:
    """The answer in a few words."""
    return f"It is faster on {_called('faster', measured)} problems"


def _called(verdict: str, measured: Mapping[str, Any]) -> str:
    rows = measured["rows"]
    return f"{sum(row['verdict'] == verdict for row in rows)} of {len(rows)}"


def long(measured: Mapping[str, Any]) -> str:
    """The answer in a few sentences."""
    rows = sorted(measured["rows"], key=lambda row: float(row["ratio"]))
    ends = (f"{row['ratio']:.3f} at {row['problem']} in {row['element_type']}" for row in rows)
    least, *_, most = ends
    older, newest = measured["versions"]
    mean = geometric_mean([row["ratio"] for row in rows])
    return (
        f"{newest} is {mean:.3f} times as fast as {older} (geometric mean; {least} to {most}), "
        f"faster on {_called('faster', measured)} problems and slower on "
        f"{_called('slower', measured)}; the same kernels beside both, {measured['kernels']:.3f} "
        f"times. BF16x9 {'engages' if measured['other_results'] else 'does not engage'}: other "
        f"results than float32 on {measured['other_results']} of {measured['emulated']} problems, "
        f"{measured['emulation']:.3f} times as fast"
    )


def main() -> None:
    """Read the datasets, and write the answer."""
    parser = command_line(__doc__)
    parser.add_argument("campaign", type=Path, help="the folder of its datasets")
    folder = parser.parse_args().campaign
    datasets = [Dataset.open(path) for path in sorted(folder.glob(f"*{OF_LIBRARY}*"))]
    measured, first = measure(datasets), datasets[0].environment
    device = here(first["device"].split(OF_LIBRARY)[0])
    words = short(measured), long(measured)
    uuids = [first["attributes"]["uuid"]]  # versions are compared on one GPU
    answer.write("cublas_versions", QUESTION, *words, device, measured, uuids=uuids)


if __name__ == "__main__":
    main()
