"""Word messages for the end of a run: why jobs failed, and why Slurm refused them."""

from collections.abc import Iterable
from pathlib import Path

ENDED = "Terminating processes on user request"
"""Snakemake's message when it is interrupted."""
REFUSALS = {
    "invalid partition": "slurm_partition",
    "Invalid generic resource": "gres, gpu or gpu_model",
    "Requested node configuration is not available": "gres, gpu, gpu_model, constraint, mem_mb or "
    "slurm_extra, or of --set-threads",
    "Invalid feature specification": "constraint",
    "Invalid account": "slurm_account",
    "Requested time limit is invalid": "runtime",
}
"""Slurm's messages for jobs that no node can run, and the resources that ask for too much."""


def errors(logs: Iterable[Path], causes: Iterable[str]) -> list[str]:
    """Return the error messages in the logs of failed jobs, each once. A log without any is named,
    with the `causes` that Snakemake has logged.
    """
    lines = []
    for log in logs:
        text = log.read_text(errors="replace") if log.exists() else ""
        own = [line for line in text.splitlines() if line.startswith("Error: ")]
        lines += own or [*causes, f"Error: {log}: the job ended without a message"]
    return list(dict.fromkeys(lines))


def refusals(logs: Iterable[str], source: str) -> list[str]:
    """Return what to change if Slurm refused a job that no node can run.

    `logs` are the texts of Snakemake's logs, `source` is the name of the campaign's file.
    """
    text = "".join(logs)
    return [
        f"Error: Slurm refused a job ({words}): no node of the cluster has what it asks for. "
        f"Change {names}: in "
        f"{source} under `partitions`, or in the profile. `sinfo -o '%P %D %c %m %G %f %l'` lists "
        "each partition's "
        "nodes, cores, memory (MB), GPUs, features and time limit"
        for words, names in REFUSALS.items()
        if words in text
    ]
