"""What a run ends with, of made-up tables."""

import csv
import json
import re
import shutil

import pytest
import synthetic
from ladder import result, tables
from ladder.aggregate import of_folder
from ladder.environment import ROOT
from ladder.kernels import discover


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """A dataset with the tables that a run leaves."""
    folder = synthetic.write(
        tmp_path_factory.mktemp("results") / "default" / "nvidia-made-up", problems=synthetic.SMALL, processes=3
    )
    for name, table in of_folder(folder, discover(ROOT).values())[0].items():
        tables.write_csv(table, folder / f"{name}.csv")
    return folder


def compiled(folder, *rows):
    """A resources.csv of these rows."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "resources.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["kernel", "configuration", "arch", "status", "reason"])
        writer.writeheader()
        writer.writerows(dict(zip(writer.fieldnames, row, strict=True)) for row in rows)
    return folder / "resources.csv"


def test_the_table_has_every_kernel_at_one_size_fastest_first(dataset):
    told, wrong = result.tell({"aggregate": [dataset / "best.csv", dataset / "summary.csv"]}, 60)
    assert wrong == ""
    best = tables.read_csv(dataset / "best.csv").query("problem == '4096' and state == 'warm'")
    lines = told.strip().splitlines()
    assert lines[0] == "NVIDIA Made Up, M=4096 N=4096 K=4096, float32, warm; intervals between-process"
    shown = lines[2 : 2 + len(best)]
    assert [line.split()[0] for line in shown] == best.sort_values("tflops", ascending=False)["kernel"].tolist()
    for line in shown:
        row = best[best["kernel"] == line.split()[0]].iloc[0]
        percents = f"{100 * row['ratio']:.1f} %  {100 * row['ratio_low']:.1f} .. {100 * row['ratio_high']:.1f}"
        assert re.sub(" +", " ", percents) in re.sub(" +", " ", line)
        assert f" {row['tflops']:.4g} " in line
        assert row["configuration"] in line
    assert f"2 other problem(s): {dataset / 'best.csv'}" in told
    assert lines[-1].endswith(f"tables and figures in {dataset}")


@pytest.mark.parametrize("lines", [10, 24])
def test_the_table_is_at_most_a_screen(dataset, lines):
    told, _ = result.tell({"aggregate": [dataset / "best.csv"]}, lines)
    assert len(told.splitlines()) <= max(lines, 10)
    best = tables.read_csv(dataset / "best.csv").query("problem == '4096' and state == 'warm'")
    shown = [line for line in told.splitlines() if line.split() and line.split()[0] in set(best["kernel"])]
    assert f"{len(best) - len(shown)} slower ones and 2 other problem(s)" in told


def test_what_is_not_right_is_named_with_its_reason(dataset, tmp_path):
    rows = list(csv.DictReader((dataset / "summary.csv").open()))
    folder = tmp_path / dataset.name
    folder.mkdir()
    (folder / "environment.json").write_text(json.dumps({"kind": "cuda"}))
    of = {row["kernel"]: row for row in rows}
    of["03_shared_tile"] |= {"status": "incorrect", "reason": "C[0][0] is off\nand more"}
    of["05_register_tile"] |= {"status": "timeout", "reason": "x" * 999}
    of["07_double_buffer"] |= {"status": "not_supported", "reason": "too large"}
    with (folder / "summary.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    refused = ("90_x", "BX=8", "sm_90", "compile_error", "nvcc says\nx.cu(3): error: what?\nfoo")
    rows = compiled(tmp_path / "build", refused, ("02_y", "-", "sm_90", "skipped", "no"), ("02_z", "-", "cpu-x", "compiled", ""))
    lines = result.not_right([folder], list(csv.DictReader(rows.open())))
    assert lines[0] == "cuda/90_x: compile_error in 1 row(s); BX=8 for sm_90: x.cu(3): error: what?"
    incorrect, timeout = lines[1:]
    label = of["03_shared_tile"]["configuration"]
    assert incorrect == f"cuda/03_shared_tile: incorrect in 1 row(s); {label} on 64x4096x4096: C[0][0] is off"
    assert timeout.startswith("cuda/05_register_tile: timeout in 1 row(s); ")
    assert timeout.endswith("xxx…")
    assert len(timeout) < result.REASON + 150


def test_what_only_was_compiled_drawn_or_counted_is_said(tmp_path):
    build = compiled(tmp_path, ("02_y", "-", "sm_80", "compiled", ""), ("02_y", "-", "sm_90", "compiled", ""))
    counters = tmp_path / "counters.csv"
    counters.write_text("kernel,reason\na,ncu is missing\nb,ncu is missing\n")
    drawn = [tmp_path / f"drawn{number}" for number in range(3)]
    for path in drawn[:2]:
        path.touch()
    told, wrong = result.tell({"compile": [build], "count": [counters], "check_drawn": drawn}, 24)
    assert told.strip().splitlines() == [
        "compiled and not measured, without a device to run on: 1 kernel(s) for sm_80, sm_90",
        f"counters of 2 kernel(s) in {counters}: ncu is missing",
        "2 published dataset(s) drawn again, each byte as it was published; tables and figures in results/redrawn/",
    ]
    assert wrong == ""
    page = tmp_path / "index.html"
    page.touch()
    assert result.tell({"index": [page]}, 24) == (f"\nall of it on one page: {page}", "")


def test_a_run_that_only_draws_what_is_published_ends_with_that(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(result, "ROOT", tmp_path / "checkout")  # it may run elsewhere
    redrawn = tmp_path / "results" / "redrawn" / "nvidia-made-up"
    shutil.copytree(dataset, redrawn)
    published = tmp_path / "checkout" / "results" / "published" / "nvidia-made-up"
    published.mkdir(parents=True)
    (redrawn / "environment.json").rename(published / "environment.json")
    page, checked = redrawn.parent / "index.html", redrawn / "drawn.checked"
    page.touch(), checked.touch()
    again = shutil.copytree(redrawn, redrawn / "again")
    made = {"aggregate": [redrawn / "best.csv", again / "best.csv"], "index": [page], "check_drawn": [checked]}
    told, wrong = result.tell(made, 60)
    assert wrong == ""
    assert told.strip().startswith("NVIDIA Made Up, M=4096")
    assert f"all of it on one page: {page}\n1 published dataset(s) drawn again" in told
    both, _ = result.tell({**made, "aggregate": [redrawn / "best.csv", dataset / "best.csv"]}, 60)
    assert both.count("NVIDIA Made Up, M=4096") == 1
    assert str(page) not in both
