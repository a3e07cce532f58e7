"""The GPU on which the tests of a file launch."""

from collections.abc import Iterator
from typing import Any

import pytest
from ladder.compiling.compile import compile_support
from ladder.devices.lock import first_gpu
from ladder.measuring.worker import open_device


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    device = first_gpu()
    support = tmp_path_factory.mktemp("support") / "support.cubin"
    support.write_bytes(compile_support("cuda", device.arch))
    opened: Any = open_device("cuda", device.uuids[0], support)
    opened.arch, opened.support = device.arch, support
    opened.made, opened.copies, opened.binaries = {}, {}, {}
    yield opened
    opened.close()
