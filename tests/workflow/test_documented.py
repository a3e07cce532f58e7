"""What the pages tell a stranger to run, run in a copy of the project as a clone has it (`tests/support/documented.py`)."""

import documented
import pytest
from documented import HERE, Stranger

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stranger(tmp_path_factory) -> Stranger:
    return Stranger(tmp_path_factory.mktemp("stranger") / "gemm-ladder")


@pytest.mark.parametrize("command", [it for it in documented.commands() if documented.way(it).where == HERE])
def test_a_command_runs(stranger, command):
    assert stranger.run(command) == 0, stranger.printed[command][-8000:]


AROUND = {
    "docs/slurm.md": "",
    "docs/compilers.md": "campaign: by-two\nkernels: [cuda/03*]\nproblems: {cuda: [[64, 64, 64]]}\ndevices: [cuda]\n",
}


@pytest.mark.parametrize("page", AROUND)
def test_a_block_of_a_campaign_is_planned(stranger, page, monkeypatch):
    (block,) = (it for it in documented.blocks() if (it.page, it.language) == (page, "yaml"))
    for name, value in stranger.simulate(name="NVIDIA H200", uuids=["GPU-1"], driver="1", compiler="1", others=[0]).items():
        monkeypatch.setenv(name, value)
    plan = stranger.ok("--configfile", stranger.campaign(AROUND[page] + block.text), "--dry-run")
    assert "rule measure:" in plan
