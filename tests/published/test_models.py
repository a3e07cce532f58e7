"""The models fit the published results."""

import pytest
from ladder.compiling import compile as compiling
from ladder.compiling import issue_model
from ladder.core.places import HOME
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import discover
from ladder.storage.published_index import HEADLINE, featured


def test_the_issue_model_predicts_the_measured_rate_of_a_kernel(opened, published, tmp_path):
    """Of rung 13 at 8192, where warps wait for multiply-adds."""
    best = opened(featured(published)[HEADLINE]).best
    chosen = (
        (best["kernel"] == "13_snake_order")
        & (best["problem"] == "8192")
        & (best["state"] == "warm")
    )
    (row,) = best[chosen].to_dict("records")
    configuration = Configuration.of("float32", row["configuration"])
    (built,) = compiling.compile_kernel(
        discover(HOME)["cuda/13_snake_order"], [(configuration, "")], "sm_90", tmp_path, 1
    )
    cubin = (tmp_path / built.binary).read_bytes()
    assert issue_model.multiply_adds_per_clock(cubin) == pytest.approx(
        row["clock_fraction"], rel=0.01
    )
