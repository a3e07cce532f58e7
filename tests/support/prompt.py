"""Snakemake that asks for its jobs' states when Slurm has changed one.

By themselves the executors ask at intervals, which for Slurm's grow by ten seconds each time that
no job has ended.
"""

import asyncio
import runpy
import subprocess
import sys
from pathlib import Path

SEEN = Path(".snakemake/states_seen")
"""The states of all jobs after which Snakemake has asked and now waits, relative to where it
runs.
"""


def states() -> str:
    """Each job with its state."""
    return subprocess.run(
        ["squeue", "-h", "-t", "all", "-o", "%i %T"], capture_output=True, text=True, check=False
    ).stdout


def main() -> None:
    from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor

    seen = ""

    async def sleep(executor: RemoteExecutor) -> None:
        nonlocal seen
        while executor.wait and (now := states()) == seen:
            SEEN.write_text(now)
            await asyncio.sleep(0.5)
        seen = states() if not executor.wait else now

    RemoteExecutor.sleep = sleep
    sys.path[0] = str(Path.cwd())  # as with python -m
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
