"""A sweep of ten thousand configurations on ten problems is planned in few jobs."""

import re

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


@pytest.mark.slow
def test_a_big_sweep_is_planned_in_few_jobs(project):
    config = project.campaign(CAMPAIGN)
    planned = project.ok("--configfile", config, "--dry-run", "--quiet", "rules")
    assert re.search(r"^measure +101$", planned, re.MULTILINE), planned
    assert int(re.search(r"^total +(\d+)$", planned, re.MULTILINE)[1]) < 300


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
