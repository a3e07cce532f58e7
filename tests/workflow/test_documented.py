"""What the pages tell a stranger to run, run in a copy of the project as a clone has it
(`tests/support/documented.py`).
"""

import re

import documented
import pytest
from documented import H200, HERE, SMOKE, Stranger
from ladder.core.errors import NOTHING_MEASURED

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stranger(tmp_path_factory) -> Stranger:
    return Stranger(tmp_path_factory.mktemp("stranger") / "gemm-ladder")


@pytest.mark.parametrize("command", documented.run_by(HERE))
def test_a_command_runs(stranger, command):
    code, answer = stranger.run(command), documented.way(command).answer
    printed = stranger.printed[command]
    assert code == 0 or (answer and answer in printed), printed[-8000:]


def test_a_second_run_has_nothing_to_do_but_print_the_table(stranger):
    """It says that nothing was measured, and an exit code of its own says it to a nightly run."""
    assert stranger.run(SMOKE) == 0
    # the first run took the Snakefile of the project's folder
    again = stranger.ok(
        "--snakefile", "workflow/Snakefile", "--config", "campaign=smoke", code=NOTHING_MEASURED
    )
    assert "1 of 1 steps (100%) done" in again
    logs = (stranger.printed[SMOKE], again)
    table, printed = (
        log[log.index("steps (100%) done") :].partition("Complete log")[0] for log in logs
    )
    note = (
        r"Nothing was measured: .*, the last of 20\d\d-\d\d-\d\d \d\d:\d\d\. To measure again, "
        r".* remove results/smoke first\n"
    )
    assert re.fullmatch(re.escape(table) + note, printed)


def test_the_report_is_one_offline_page(stranger):
    assert stranger.run(f"{SMOKE} --report report.html") == 0
    page = (stranger.folder / "report.html").read_text()
    assert "performance-warm" in page
    assert "summary.csv" in page
    assert 'src="http' not in page


AROUND = {
    "docs/slurm.md": "",
    "docs/compilers.md": "campaign: by-two\nkernels: [cuda/03*]\nproblems: {cuda: [[64, 64, "
    "64]]}\ndevices: [cuda]\n",
}


@pytest.mark.parametrize("page", AROUND)
def test_a_block_of_a_campaign_is_planned(stranger, page, monkeypatch):
    (block,) = (block for block in documented.blocks() if block.name == f"{page}: yaml")
    for name, value in stranger.simulate(uuids=["GPU-1"], **H200).items():
        monkeypatch.setenv(name, value)
    plan = stranger.ok("--configfile", stranger.campaign(AROUND[page] + block.text), "--dry-run")
    assert "rule measure:" in plan
