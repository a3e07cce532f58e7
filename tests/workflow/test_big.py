"""A sweep of ten thousand configurations on ten problems: planned in few jobs, in seconds on an
idle machine.
"""

import re
import subprocess
import sys

import pytest
from ladder.core.files import ROOT
from ladder.model import campaign_file
from ladder.model.kernel_file import discover

SIDES = {"BM": [*range(1, 26)], "BN": [*range(1, 21)], "BK": [*range(1, 21)]}
CAMPAIGN = f"""
campaign: big
partitions: {{h200: {{device: nvidia-h200, architecture: sm_90}}}}
kernels: [cuda/03_shared_tile]
problems: {{cuda: [{{square: [64, 128, 256, 512, 1024, 2048, 4096]}}, [64, 4096, 4096], [4096, 64, 4096], [4096, 4096, 64]]}}
parameters: {{cuda/03_shared_tile: {SIDES}}}
measure: {{shard: 100}}
confirm: {{processes: 0}}
"""


METERED = """
import resource, subprocess, sys
code, used = subprocess.call(sys.argv[2:]), resource.getrusage(resource.RUSAGE_CHILDREN)
open(sys.argv[1], "w").write(f"{used.ru_utime + used.ru_stime} {1024 * used.ru_maxrss}")
sys.exit(code)
"""
"""Runs a command, and writes its CPU seconds and the bytes of its largest memory. A child of ours
would begin with our own memory.
"""


def dry_run(project):
    """What Snakemake plans, the CPU seconds that it takes, and the bytes of its largest memory."""
    command = [
        project.python,
        "-m",
        "snakemake",
        "--cores",
        "1",
        "--configfile",
        project.campaign(CAMPAIGN),
        "--dry-run",
    ]
    used = project.folder / "used"
    done = subprocess.run(
        [sys.executable, "-c", METERED, used, *command, "--quiet", "rules"],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    seconds, peak = map(float, used.read_text().split())
    return done.stdout, seconds, peak


@pytest.mark.slow
def test_a_big_sweep_is_planned_in_few_jobs(project):
    planned, _, _ = dry_run(project)
    assert re.search(r"^measure +101$", planned, re.MULTILINE), planned
    assert int(re.search(r"^total +(\d+)$", planned, re.MULTILINE)[1]) < 300


@pytest.mark.machine
def test_a_big_sweep_is_planned_in_seconds_and_little_memory(project):
    _, seconds, peak = dry_run(project)
    assert seconds < 10
    assert 0 < peak < 500e6


def test_shards_are_parts_of_a_sweep_in_its_order():
    def plans(**measure):
        data = {
            "campaign": "t",
            "problems": {"cuda": [[5, 6, 7]]},
            "kernels": ["cuda/03_shared_tile"],
            "measure": measure,
        }
        campaign = campaign_file.load(data, "t", discover(ROOT))
        return campaign.jobs("cuda"), [
            campaign.plan("cuda", job)["candidates"] for job in campaign.jobs("cuda")[1:]
        ]

    jobs, (whole,) = plans()
    assert jobs == ["baselines.float32", "03_shared_tile.float32"]
    for shard in (1, 3, len(whole) - 1, len(whole), 1000):
        jobs, parts = plans(shard=shard)
        count = -(-len(whole) // shard)
        assert [candidate for part in parts for candidate in part] == whole
        assert max(map(len, parts)) <= shard
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        assert len(jobs) == 1 + count
        assert jobs[1] == ("03_shared_tile.float32" + (f".1of{count}" if count > 1 else ""))
