"""Datasets that the tests of figures share."""

import pytest
from drawn import made


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    return made(tmp_path_factory.mktemp("data") / "x")


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """One in which every configuration is compiled in two ways."""
    return made(
        tmp_path_factory.mktemp("data") / "x",
        problems=[(256, 256, 256), (4096, 4096, 4096)],
        kernels=("03_shared_tile", "05_register_tile", "cublas"),
        builds=("", "compiler=nvrtc maxrregcount=128"),
        processes=3,
    )
