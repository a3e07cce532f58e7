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
    data: Mapping[str, Any]

    @property
    def question(self) -> str:
        return str(self.data["question"])

    @property
    def short(self) -> str:
        return str(self.data["short"])

    @property
    def long(self) -> str:
        return str(self.data["long"])

    @property
    def outdated(self) -> str:
        """Why the answer no longer holds: what somebody has added to its file; "" if it holds."""
        return str(self.data.get("outdated", ""))

    @property
    def kernels(self) -> Mapping[str, str]:
        """The digests of the code of the kernels that the answer is about, by their ids."""
        kernels: Mapping[str, str] = self.data.get("kernels", {})
        return kernels

    @property
    def measured(self) -> Any:
        return self.data["measured"]

    @property
    def device(self) -> str:
        return str(
            self.data["provenance"]["device"] if "provenance" in self.data else self.data["device"]
        )

    @property
    def made(self) -> str:
        """When and by which script of which commit the answer was measured, as text."""
        if "provenance" not in self.data:
            return f"from the published data, by `{self.data['command']}`"
        provenance = self.data["provenance"]
        commit = provenance["project"]["commit"][:10]
        return f"{provenance['time'][:10]}, by `{provenance['command']}` of commit `{commit}`"

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


def of(root: Path, name: str) -> list[Answer]:
    """Return the committed answers of a study, in the order of their files.

    Raises `InputError` for an answer measured from a checkout with changes or without a commit.
    """
    answers = []
    for path in sorted((root / PUBLISHED).glob(OF_PUBLISHED.get(name, f"studies/{name}.*.json"))):
        answer = Answer(path, read_json(path))
        project = answer.data.get("provenance", {}).get("project", {"commit": "-", "dirty": False})
        if not project["commit"] or project["dirty"]:
            raise InputError(
                f"{path}: measured from a checkout with changes or without a commit; expected a "
                "clean one"
            )
        answers.append(answer)
    return answers
