"""Figures of errors, models and parameters: what is drawn of a made-up dataset."""

import numpy as np
import pandas as pd
import pytest
import synthetic
from drawn import caption, changed, draw, note, rows, words, written
from ladder.figures import selection
from ladder.figures.data import MARKS
from matplotlib.colors import to_hex


def test_parameters_tell_shapes_apart_and_mark_what_was_raced(dataset):
    figure = draw(dataset, "parameters-05_register_tile")
    squares, others = figure.axes[:2]
    assert [axes.get_title(loc="left") for axes in (squares, others)] == ["squares", "other shapes"]
    sizes = [label.get_text() for label in squares.get_xticklabels()]
    assert sizes == ["256", "512", "1024", "2048", "4096", "8192"]
    assert squares.collections[0].get_clim() == others.collections[0].get_clim()
    texts = [text.get_text() for axes in (squares, others) for text in axes.texts]
    raced = rows(dataset, "summary", kernel="05_register_tile", stop="race")
    assert len([text for text in texts if text.startswith("~")]) == len(raced) > 0
    assert "~: raced, eliminated early, few samples." in note(figure)
    assert "between-process" not in note(figure)


def test_the_roofline_shows_what_passes_the_peak_on_tensor_cores_and_marks(dataset):
    best = rows(dataset)
    at = (best["problem"] == "4096") & (best["state"] == "warm")
    best.loc[at & (best["kernel"] == "16_thin_edge"), ["tflops", "tensor_cores"]] = [200.0, True]
    drifting = at & (best["kernel"] == "05_register_tile")
    best.loc[drifting, "marks"] = "drifting"
    figure = draw(changed(dataset, best=best), "roofline")
    (axes,) = figure.axes
    edges = {}
    for dots in axes.collections:
        edges[float(dots.get_offsets()[0][1])] = to_hex(dots.get_edgecolors()[0])
    assert 200.0 in edges
    assert axes.get_ylim()[1] > 200
    marked = [tflops for tflops, edge in edges.items() if edge == MARKS["drifting"][1]]
    assert marked == best.loc[drifting, "tflops"].tolist()
    assert "edge: drifting" in words(figure)
    assert "Rungs on the tensor cores may lie above the FP32 peak." in caption(figure)


CLASSES = {
    "rungs on CUDA cores": [kernel for kernel in synthetic.SHARES if kernel[0] in "01"],
    "cuBLAS": ["cublas", "cublaslt_best"],
    "rounded to TF32": ["20_tensor_cores", "cublas_tf32"],
}
"""How accuracy sorts the kernels."""


def test_accuracy_has_a_line_a_class_or_a_kernel_of_a_small_one_and_a_point_a_kernel(dataset):
    figure = draw(dataset, "accuracy")
    of_elements, by_speed = figure.axes
    best = rows(dataset, state="warm").query("tflops.notna()")
    expected = []
    for members in CLASSES.values():
        for kernels in [[kernel] for kernel in sorted(members)] if len(members) <= 3 else [members]:
            errors = best[best["kernel"].isin(kernels)].groupby("k")["component_error"]
            expected.append(pytest.approx(list(errors.median())))
    solid = [line for line in of_elements.get_lines() if line.get_linestyle() != ":"]
    assert [list(line.get_ydata()) for line in solid] == expected
    points = {line.get_label(): line.get_xydata()[0] for line in by_speed.get_lines()}
    assert set(points) == set(synthetic.SHARES)
    mine = best[best["kernel"] == "05_register_tile"]
    expected = [100 * np.exp(np.log(mine["ratio"]).mean()), mine["frobenius_error"].median()]
    assert list(points["05_register_tile"]) == pytest.approx(expected)
    assert {"rungs on CUDA cores (8)", "rounded to TF32: 20, cuBLAS TF32"} <= set(words(figure))
    bounds = [line for line in of_elements.get_lines() if line.get_linestyle() == ":"]
    assert len(bounds) == rows(dataset)["precision"].fillna("").nunique()
    for line in bounds:
        assert pd.Series(line.get_ydata()).groupby(line.get_xdata()).nunique().max() == 1


@pytest.mark.slow
def test_distributions_show_the_largest_error_of_each_and_a_bound_for_each_class(dataset):
    best = dataset[0]["best"].assign(
        distribution=dataset[0]["best"]["k"].map(lambda k: "sparse" if k > 1000 else "uniform")
    )
    of_both = changed(dataset, best=best)
    (axes,) = draw(of_both, "distributions").axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["uniform", "sparse"]
    warm = rows(of_both, state="warm").query("tflops.notna()")
    largest = warm.groupby(["kernel", "distribution"])["component_error"].max() * 2**24
    most = warm.groupby(["kernel", "distribution"])["component_bound"].max() * 2**24
    ranges, bounds = [], []
    for members in CLASSES.values():
        for name in ("uniform", "sparse"):
            errors = largest[members].xs(name, level=1)
            ranges.append(pytest.approx([errors.min(), errors.max()]))
            bounds.append(pytest.approx(most[members].xs(name, level=1).max()))
    drawn = [line.get_xdata() for line in axes.get_lines() if len(line.get_xdata()) == 2]
    assert [sorted(ends) for ends in drawn] == ranges
    ends = [line.get_xdata()[0] for line in axes.get_lines() if line.get_marker() == ">"]
    assert ends == bounds


def test_shapes_show_the_fastest_rungs_by_layout_and_group(dataset, tmp_path, monkeypatch):
    """Of a large campaign each layout has problems in the figure."""
    monkeypatch.setattr(selection, "PROBLEMS", 1)
    best = rows(dataset)
    layout = np.where(best["k"] == 2051, "nt", "nn")
    paths = written({"best": best.assign(frobenius_error=1e-7, layout=layout)}, tmp_path)
    given = changed(dataset, **selection.read(paths))
    figure = draw(given, "shapes")
    fastest = rows(given, state="warm").query("kernel < '2'").groupby("problem")["ratio"].max()
    assert f"on {sum(fastest >= 1)} of 4" in words(figure)[0].replace("\n", " ")
    (axes,) = figure.axes
    labels = " | ".join(label.get_text() for label in axes.get_yticklabels()[::2])
    assert labels == "nn large | nn smaller | nt unaligned"
    dots = [shown.get_offsets()[:, 0].tolist() for shown in axes.collections]
    smaller = fastest[["256", "64x4096x4096"]]
    expected = [fastest["4096"]], list(smaller), [fastest["2049x2047x2051"]]
    assert dots[::2] == list(map(pytest.approx, expected))
    assert dots[1] < dots[0]  # over the fastest algorithm
    expected = f"{sum(smaller >= 1)} of 2 {min(smaller):.2f} {smaller.prod() ** 0.5:.2f}"
    assert " ".join(text.get_text() for text in axes.texts[2::7]) == expected
