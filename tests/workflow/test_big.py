"""A sweep of ten thousand configurations on ten problems is planned in few jobs."""

import re

import pytest
from ladder.core.places import HOME
from ladder.model import campaign_file
from ladder.model.campaign import CONFIRM_US, JOURNALS, SWEEP_US
from ladder.model.kernel_file import discover

SIDES = {"BM": [*range(1, 26)], "BN": [*range(1, 21)], "BK": [*range(1, 21)]}
CAMPAIGN = f"""
campaign: big
partitions: {{h200: {{device: nvidia-h200, architecture: sm_90}}}}
kernels: [cuda/03_shared_tile]
problems: {{cuda: [{{square: [64, 128, 256, 512, 1024, 2048, 4096]}}, [64, 4096, 4096], [4096, 64, 4096], [4096, 4096, 64]]}}
parameters: {{cuda/03_shared_tile: {SIDES}}}
confirm: {{processes: 0}}
"""


@pytest.mark.slow
def test_a_big_sweep_is_planned_in_few_jobs(project):
    config = project.campaign(CAMPAIGN)
    planned = project.ok("--configfile", config, "--dry-run", "--quiet", "rules")
    assert int(re.search(r"^measure +(\d+)$", planned, re.MULTILINE)[1]) <= 20, planned
    assert int(re.search(r"^total +(\d+)$", planned, re.MULTILINE)[1]) < 60


TWO = {
    "campaign": "t",
    "problems": {"cuda": [[m, 64, 64] for m in range(1, 101)]},
    "kernels": ["cuda/03_shared_tile"],
    "parameters": {"cuda/03_shared_tile": {"BM": [*range(1, 26)], "BN": [*range(1, 21)]}},
}


def loaded(**changes):
    return campaign_file.load(TWO | changes, "t", discover(HOME))


def names(shares):
    return [share["name"] for share in shares]


def test_parts_of_a_sweep_have_about_equal_work_and_all_of_it_once():
    campaign = loaded()
    parts = campaign.parts["cuda"]
    shares = campaign.shares["cuda", "float32"]
    assert [name for part in parts.values() for name in names(part.items)] == names(shares)
    work = [part.us for part in parts.values()]
    assert max(work) <= 1.1 * SWEEP_US
    assert sum(work) / SWEEP_US < len(parts) < 1.5 * sum(work) / SWEEP_US
    of_kernel = [share for share in shares if share["kernel"]]
    assert len(of_kernel) > 1
    candidates = [each["label"] for share in of_kernel for each in share["candidates"]]
    assert candidates == [each.label for each, _ in campaign.configurations["cuda/03_shared_tile"]]
    assert sorted(parts) == list(parts)


def test_a_divided_kernel_has_parts_of_its_own():
    """So its rows can be read without those of all others."""
    parameters = {"cuda/04_shared_tile_unrolled": {"BM": [*range(1, 26)], "BN": [*range(1, 14)]}}
    campaign = loaded(kernels=["cuda/0[1-5]*"], parameters=TWO["parameters"] | parameters)
    divided = {"cuda/03_shared_tile", "cuda/04_shared_tile_unrolled"}
    of_parts = [
        {share["kernel"] for share in part.items} for part in campaign.parts["cuda"].values()
    ]
    assert all(len(kernels) == 1 for kernels in of_parts if kernels & divided)
    assert set.union(*of_parts) > divided


def test_what_a_journal_is_of_stays_when_a_kernel_is_added():
    alone, more = loaded(), loaded(kernels=["cuda/0[2-5]*"])
    known = {share["name"]: share for share in more.shares["cuda", "float32"]}
    assert all(known[share["name"]] == share for share in alone.shares["cuda", "float32"])


def test_a_confirmation_is_divided_by_problems_and_a_job_has_few_journals():
    problems = {"cuda": [[m, 64, 64] for m in range(1, 2001)]}
    campaign = loaded(problems=problems, parameters={}, confirm={"processes": 20})
    blocks = campaign.blocks["cuda"].values()
    whole = campaign.problems("cuda", "float32")
    assert [problem for block in blocks for problem in block.items] == whole
    assert max(block.us for block in blocks) <= 1.1 * CONFIRM_US
    assert len(blocks) > sum(block.us for block in blocks) / CONFIRM_US > 4
    one = {"baselines": {"cuda": ["cublas"]}, "confirm": {"processes": 3}}
    short = loaded(problems=problems, parameters={}, **one)
    blocks = short.blocks["cuda"].values()
    assert sum(block.us for block in blocks) < CONFIRM_US
    assert [len(block.items) for block in blocks] == [JOURNALS] * 4
    assert list(loaded(problems={"cuda": [[5, 6, 7]]}).blocks["cuda"]) == [""]
    assert loaded(confirm={"processes": 0}).blocks["cuda"] == {}
