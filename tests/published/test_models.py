"""Models and studies that start from published results fit them."""

import beside
import changes
import pytest
import registers
from ladder.claims.answers import STUDIES
from ladder.compiling import compile as compiling
from ladder.compiling import issue_model
from ladder.core.files import ROOT
from ladder.model.kernel import Configuration
from ladder.model.kernel_file import discover
from ladder.storage.published_index import HEADLINE, featured


def test_the_issue_model_predicts_the_measured_rate_of_a_kernel(opened, published, tmp_path, monkeypatch):
    """Of rung 13 at 8192, where warps wait for multiply-adds. With the costs of loads that the study measured it would not."""
    best = opened(featured(published)[HEADLINE]).best
    chosen = (best["kernel"] == "13_snake_order") & (best["problem"] == "8192") & (best["state"] == "warm")
    (row,) = best[chosen].to_dict("records")
    configuration = Configuration.of("float32", row["configuration"])
    (built,) = compiling.compile_kernel(discover(ROOT)["cuda/13_snake_order"], [(configuration, "")], "sm_90", tmp_path, 1)
    cubin = (tmp_path / built.binary).read_bytes()
    assert issue_model.multiply_adds_per_clock(cubin) == pytest.approx(row["clock_fraction"], rel=0.01)
    (measured,) = (measured["unwaited"] for _, measured in STUDIES["registers"].published(ROOT).values())
    monkeypatch.setattr(issue_model, "WRITE_BACK", {registers.WIDTHS[int(width)]: cost for width, cost in measured.items()})
    assert issue_model.multiply_adds_per_clock(cubin) < 0.95 * row["clock_fraction"]


def test_placement_uses_the_fastest_rungs_that_are_as_accurate_as_the_reference(opened, published):
    dataset = beside.CASES["placement"][-1]
    best = opened(featured(published)[dataset]).best
    errors = best[best["state"] == "warm"].set_index(["problem", "kernel", "configuration"])["frobenius_error"]
    chosen = beside.fastest(dataset)
    assert len(chosen) > 20
    for problem, rung, configuration in chosen:
        assert errors[problem.label, rung, configuration.label] <= 1.05 * errors[problem.label, "cublas", "-"], problem.label


def test_changes_of_rungs_fit_the_kernels(tmp_path):
    """Each edit has its place, and each configuration, made from the best published one, is legal and another program."""
    digests = {kernel.name: kernel.digest for kernel in discover(ROOT).values()}
    for number, change in enumerate(changes.CHANGES):
        kernel, configuration = changes.changed(change, tmp_path / f"{number}")
        before = digests[change.kernel], changes.as_it_is(change).label
        assert (kernel.digest, configuration.label) != before, change.what
