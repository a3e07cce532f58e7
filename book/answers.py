"""Read the dated answers of studies in `results/published/`."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.core.errors import InputError
from ladder.core.files import read_json
from ladder.model.kernel import Kernel, code_digest
from ladder.storage.dataset_layout import PUBLISHED

TOPICS = {
    "Correctness and robustness": (
        "checks",
        "random_problems",
        "adversary",
        "faults",
        "fuzz",
        "kill",
    ),
    "Timing": (
        "agreement",
        "repeat",
        "elsewhere",
        "false_positives",
        "two_percent",
        "gate_rates",
        "slowed",
        "disturbance",
        "neighbours",
        "placement",
    ),
    "Speed of the pipeline": ("benchmark", "several_gpus", "saves", "kernel_tuner_compare"),
    "Explanations": ("kernel_tuner_times", "registers", "tried", "tensor", "power_limit", "thin"),
}
"""The topics of docs/evidence.md, with the studies of each."""
OF_PUBLISHED = {"repeat": "repeat-*.json", "false_positives": "false-positives-*.json"}
"""The answers that are made from the published data, not by a run of their own."""


@dataclass(frozen=True)
class Answer:
    """The answer of a study on a device, as its file has it."""

    path: Path
    question: str
    short: str
    long: str
    measured: Any
    device: str
    date: str
    """When the answer was measured; its file names script and commit."""
    outdated: str
    """Why the answer no longer holds: what somebody has added to its file; "" if it holds."""
    kernels: Mapping[str, str]
    """The digests of the code of the kernels that the answer is about, by their ids."""

    def changed(self, kernels: Iterable[Kernel]) -> list[str]:
        """Return the ids of the answer's kernels whose code differs from today's, or that are
        gone.
        """
        today = {
            kernel.id: code_digest(kernel.text, kernel.includes)
            for kernel in kernels
            if kernel.id in self.kernels
        }
        return [id for id, digest in self.kernels.items() if today.get(id) != digest]


def read(path: Path) -> Answer:
    """Return the answer in a file. Raises `InputError` for one measured from a checkout with
    changes or without a commit.
    """
    data = read_json(path)
    words = {name: data[name] for name in ("question", "short", "long")}
    more = {"outdated": data.get("outdated", ""), "kernels": data.get("kernels", {})}
    if "provenance" not in data:
        words |= {"device": data["device"], "date": "from the published data"}
        return Answer(path, **words, **more, measured=None)
    provenance = data["provenance"]
    commit = provenance["project"]["commit"]
    if not commit or provenance["project"]["dirty"]:
        raise InputError(
            f"{path}: measured from a checkout with changes or without a commit; expected a clean "
            "one"
        )
    words |= {"device": provenance["device"], "date": provenance["time"][:10]}
    return Answer(path, **words, **more, measured=data["measured"])


def of(root: Path, name: str) -> list[Answer]:
    """Return the committed answers of a study, in the order of their files."""
    pattern = OF_PUBLISHED.get(name, f"studies/{name}.*.json")
    return [read(path) for path in sorted((root / PUBLISHED).glob(pattern))]
