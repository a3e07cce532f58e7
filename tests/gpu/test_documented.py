"""What the pages tell somebody with a GPU to run, run there: their kernels, and what the chapters
let one try.
"""

import documented
import pytest
from documented import ON_GPU, Stranger

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def stranger(tmp_path_factory) -> Stranger:
    """A clone with the kernel that the README has its reader write."""
    made = Stranger(tmp_path_factory.mktemp("stranger") / "gemm-ladder")
    (block,) = (block for block in documented.blocks() if block.page == "README.md")
    made.write("kernels/cuda/90_mine.cu", block.text)
    return made


@pytest.mark.parametrize("command", documented.run_by(ON_GPU))
def test_a_command_runs(stranger, command):
    assert stranger.run(command) == 0, stranger.printed[command][-8000:]


def test_the_kernel_of_a_tutorial_is_correct_in_the_end(stranger):
    wanted = "docs/bring-your-kernel.md", "cuda"
    *_, block = (block for block in documented.blocks() if (block.page, block.language) == wanted)
    stranger.write("kernels/cuda/91_tutorial.cu", block.text)
    assert stranger.run("ladder try kernels/cuda/91_tutorial.cu") == 0, stranger.printed
