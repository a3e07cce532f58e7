"""The plan of a campaign five times as large is at most five times the work: counted, not timed."""

import json
import re

import growth
import pytest
import work
from growth import Size
from planted import HOME

COUNTED = """
import json, sys
from pathlib import Path
sys.path.append({support!r})
import work
from snakemake.cli import main
def run():
    try:
        main({arguments!r})
    except SystemExit as end:
        code = end.code
counted = work.of(run, Path("workflow").resolve())
Path("counted.json").write_text(json.dumps(counted))
"""
AXES = {
    "kernels": lambda n: Size(5 * n, 2, 3),
    "problems": lambda n: Size(4, 2, 5 * n),
    "devices": lambda n: Size(3, 2, 3, 2 * n),
}


def counted(campaign, *arguments):
    """What Snakemake does in the project's own code, and what it prints."""
    support = str(HOME / "tests" / "support")
    script = COUNTED.format(support=support, arguments=[*growth.OPTIONS, *arguments])
    cost = campaign.run("-c", script)
    assert not cost.failed, cost.printed
    return work.Work(*json.loads((campaign.folder / "counted.json").read_text())), cost.printed


@pytest.mark.slow
@pytest.mark.parametrize("axis", AXES)
def test_a_plan_takes_no_more_for_each_job_of_a_larger_campaign(tmp_path, axis, monkeypatch):
    lines, read, jobs = [], [], []
    for times in (1, 2, 5):
        monkeypatch.setenv("LADDER_STORE", str(tmp_path / f"store {times}"))  # nothing was read yet
        campaign = growth.Made(tmp_path / str(times), AXES[axis](times))
        planning, printed = counted(campaign, "--dry-run", "--quiet", "rules")
        jobs.append(int(re.search(r"^total +(\d+)$", printed, re.MULTILINE)[1]))
        lines.append(planning.lines)
        read.append(planning.read)
    assert work.excess(jobs) <= 0, jobs
    assert work.excess(lines) < 0.02, lines
    assert work.excess(read) < 0.1, read
