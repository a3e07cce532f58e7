"""The GPU on which the tests of a file launch.

On an H200 with `-n 8`, `test_gpu_rungs.py` takes 5 minutes, and most of them rung 40, whose six
configurations are compiled once for each of pytest's processes that runs tests of it.
`test_gpu.py` takes 3.5 minutes, 160 s of them for kernels that hang or crash on purpose;
`tests/frauds` 1.5 minutes. racecheck of `test_sanitizer.py` takes more than 4 minutes over all
rungs.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from answer import first_gpu
from ladder.compiling.compile import compile_support
from ladder.measuring.worker import opener


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    device = first_gpu()
    support = tmp_path_factory.mktemp("support") / "support.cubin"
    support.write_bytes(compile_support("cuda", device.arch))
    opened: Any = opener("cuda")(device.uuids[0], support)
    opened.arch, opened.support = device.arch, support
    opened.made, opened.copies, opened.binaries = {}, {}, {}
    yield opened
    opened.close()
