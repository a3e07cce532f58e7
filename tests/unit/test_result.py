"""What a run ends with, of made-up tables."""

import csv
import json
import re
import shutil
from pathlib import Path

import pytest
import synthetic
from ladder.analysis.dataset import Dataset
from ladder.core.errors import InputError
from ladder.core.files import ROOT
from ladder.model.kernel_file import discover
from ladder.pipeline import final_table
from ladder.storage import csv_files, published_index, samples


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """A dataset with the tables that a run leaves."""
    folder = tmp_path_factory.mktemp("results") / "default" / "nvidia-made-up"
    synthetic.write(folder, problems=synthetic.SMALL, processes=3)
    for name, table in Dataset.open(folder, discover(ROOT).values()).tables().items():
        csv_files.write_csv(table, folder / f"{name}.csv")
    return folder


def compiled(folder, *rows):
    """A resources.csv of these rows."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "resources.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["kernel", "configuration", "arch", "status", "reason"])
        writer.writeheader()
        writer.writerows(dict(zip(writer.fieldnames, row, strict=True)) for row in rows)
    return folder / "resources.csv"


def test_the_table_has_every_kernel_at_one_size_in_the_order_of_the_ladder(dataset):
    result, failures = final_table.summary(
        {"aggregate": [dataset / "best.csv", dataset / "summary.csv"]}, 60, 200
    )
    assert failures == ""
    best = csv_files.read_csv(dataset / "best.csv").query("problem == '4096' and state == 'warm'")
    lines = result.strip().splitlines()
    assert (
        lines[0] == "NVIDIA Made Up, M=4096 N=4096 K=4096, float32, warm; cuBLAS 13.1.0; intervals "
        "between-process"
    )
    shown = lines[2 : 2 + len(best)]
    context = ["20_tensor_cores", "cublas_tf32", "cublaslt_best"]
    rungs = [kernel for kernel in synthetic.SHARES if kernel[0].isdigit() and kernel not in context]
    assert [line.split()[0] for line in shown] == [*rungs, "cublas", *context]
    assert shown[len(rungs)].split()[3:] == ["baseline"]
    for line in [line for line in shown if "baseline" not in line]:
        row = best[best["kernel"] == line.split()[0]].iloc[0]
        percents = (
            f"{100 * row['ratio']:.1f} %  {100 * row['ratio_low']:.1f} to "
            f"{100 * row['ratio_high']:.1f}"
        )
        assert re.sub(" +", " ", percents) in re.sub(" +", " ", line)
        assert f" {row['tflops']:.4g} " in line
        assert row["configuration"] in line
    assert f"2 other problem(s): {dataset / 'best.csv'}" in result
    assert lines[-1].endswith(f"tables and figures in {dataset}")


@pytest.mark.parametrize("lines", [10, 24])
def test_the_table_is_at_most_a_screen(dataset, lines):
    result, _ = final_table.summary({"aggregate": [dataset / "best.csv"]}, lines, 200)
    assert len(result.splitlines()) <= max(lines, 10)
    best = csv_files.read_csv(dataset / "best.csv").query("problem == '4096' and state == 'warm'")
    shown = [
        line
        for line in result.splitlines()
        if line.split() and line.split()[0] in set(best["kernel"])
    ]
    assert f"{len(best) - len(shown)} more kernel(s) and 2 other problem(s)" in result
    names, rungs = (
        [line.split()[0] for line in shown],
        best[best["precision"].isna() & best["kernel"].str[0].str.isdigit()],
    )
    fastest = rungs.sort_values("tflops")["kernel"].tolist()[
        -len([name for name in names if name[0].isdigit()]) :
    ]
    # the slowest rungs leave a short screen, and all that is not ranked
    assert names[: len(fastest)] == sorted(fastest)
    assert len(names) == len(best) or not any("tf32" in name for name in names)


def test_what_is_not_right_is_named_with_its_reason(dataset, tmp_path):
    rows = list(csv.DictReader((dataset / "summary.csv").open()))
    folder = tmp_path / dataset.name
    folder.mkdir()
    (folder / "environment.json").write_text(json.dumps({"kind": "cuda", "name": "x"}))
    of = {row["kernel"]: row for row in rows}
    of["03_shared_tile"] |= {
        "status": "incorrect",
        "reason": "C[0][0] is off\nand more",
        "padding": "1,0,2",
        "distribution": "denormal",
    }
    of["05_register_tile"] |= {"status": "timeout", "reason": "x" * 999}
    of["07_double_buffer"] |= {"status": "not_supported", "reason": "too large"}
    with (folder / "summary.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    refused = ("90_x", "BX=8", "sm_90", "compile_error", "nvcc says\nx.cu(3): error: what?\nfoo")
    rows = compiled(
        tmp_path / "build",
        refused,
        ("02_y", "-", "sm_90", "skipped", "no"),
        ("02_z", "-", "cpu-x", "compiled", ""),
    )
    lines = final_table.failures([folder], list(csv.DictReader(rows.open())))
    assert lines[0] == "cuda/90_x: compile_error in 1 row(s); BX=8 for sm_90: x.cu(3): error: what?"
    incorrect, timeout, hint = lines[1:]
    label = of["03_shared_tile"]["configuration"]
    options = (
        "--problem 64x4096x4096 --padding=1,0,2 --distribution=denormal --set "
        f"{label.replace(' ', ' --set ')}"
    )
    assert (
        hint == f"`.venv/bin/ladder try kernels/cuda/03_shared_tile.cu {options}` shows the first "
        "incorrect element"
    )
    assert (
        incorrect
        == f"cuda/03_shared_tile: incorrect in 1 row(s); {label} on 64x4096x4096: C[0][0] is off"
    )
    assert timeout.startswith("cuda/05_register_tile: timeout in 1 row(s); ")
    assert timeout.endswith("xxx…")
    assert len(timeout) < final_table.REASON + 150
    # what does not compile has no element
    assert len(final_table.failures([], list(csv.DictReader(rows.open())))) == 1


def test_what_only_was_compiled_drawn_or_counted_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(final_table, "ROOT", tmp_path)  # where nothing is published
    build = compiled(
        tmp_path, ("02_y", "-", "sm_80", "compiled", ""), ("02_y", "-", "sm_90", "compiled", "")
    )
    counters = tmp_path / "counters.csv"
    counters.write_text("kernel,reason\na,ncu is missing\nb,ncu is missing\n")
    drawn = [tmp_path / f"drawn{number}" for number in range(3)]
    for path in drawn[:2]:
        path.touch()
    result, failures = final_table.summary(
        {"compile": [build], "count": [counters], "check_drawn": drawn}, 24, 80
    )
    assert result.strip().splitlines() == [
        "compiled but not measured, for want of a device: 1 kernel(s) for sm_80, sm_90",
        f"counters of 2 kernel(s) in {counters}: ncu is missing",
        "2 published dataset(s) drawn again, each byte as it was published; tables and figures in "
        "results/redrawn/",
    ]
    assert failures == ""
    page = tmp_path / "index.html"
    page.touch()
    assert final_table.summary({"index": [page]}, 24, 80) == (f"\nExplore the results: {page}", "")


def test_a_run_that_only_draws_what_is_published_ends_with_that(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(final_table, "ROOT", tmp_path / "checkout")  # it may run elsewhere
    redrawn = tmp_path / "results" / "redrawn" / "nvidia-made-up" / "default"
    shutil.copytree(dataset, redrawn)
    published = tmp_path / "checkout" / "results" / "published"
    folder = published / "nvidia-made-up" / "default" / "1"
    folder.mkdir(parents=True)
    (redrawn / "environment.json").rename(folder / "environment.json")
    synthetic.index(published)
    index = published_index.read(published)
    index["nvidia-made-up/default"]["not_from_lock"] = {"1": "numpy 1 (lock 2)"}
    published_index.write(published, index)
    page, checked = redrawn.parents[1] / "index.html", redrawn / "drawn.checked"
    page.touch(), checked.touch()
    made = {"aggregate": [redrawn / "best.csv"], "index": [page], "check_drawn": [checked]}
    result, failures = final_table.summary(made, 60, 200)
    assert failures == ""
    assert result.strip().startswith("NVIDIA Made Up, M=4096")
    assert f"Explore the results: {page}\n1 published dataset(s) drawn again" in result
    assert result.splitlines()[-1] == (
        "not measured with the packages of the lock: nvidia-made-up/default (1 of 1 runs); "
        "results/published/index.yaml says which"
    )
    both, _ = final_table.summary(
        {**made, "aggregate": [redrawn / "best.csv", dataset / "best.csv"]}, 60, 200
    )
    assert both.count("NVIDIA Made Up, M=4096") == 1
    assert str(page) not in both


def changed(dataset, folder, change):
    """A copy of the dataset with other tables: `change` is given `best` and `summary` and returns
    them.
    """
    shutil.copytree(dataset, folder)
    read = [
        csv_files.read_csv(folder / f"{name}.csv").astype({"problem": str})
        for name in ("best", "summary")
    ]
    for name, table in zip(("best", "summary"), change(*read), strict=True):
        csv_files.write_csv(table, folder / f"{name}.csv")
    return {"aggregate": [folder / "best.csv"]}


def test_every_kernel_that_was_chosen_is_named_whatever_it_was_measured_on(dataset, tmp_path):
    """One in another element type, one on another problem, one on none."""
    wide, thin, none = "05_register_tile", "07_double_buffer", "08_padded_shared"

    def change(best, summary):
        best = best[
            (best["kernel"] != none)
            & ((best["kernel"] != thin) | (best["problem"] == "64x4096x4096"))
        ].copy()
        for table in (best, summary):
            table["element_type"] = table["element_type"].mask(table["kernel"] == wide, "float64")
        for column, value in (("status", "not_supported"), ("reason", "needs M > 5000")):
            summary[column] = summary[column].mask(summary["kernel"] == none, value)
        return best, summary

    made = changed(dataset, tmp_path / "nvidia-made-up", change)
    result, failures = final_table.summary(made, 60, 200)
    assert failures == ""
    single, double = re.findall(
        r"^NVIDIA Made Up, M=4096 N=4096 K=4096, (\w+), warm;.*\n((?:  .*\n)+)",
        result,
        re.MULTILINE,
    )
    assert (single[0], double[0]) == ("float32", "float64")
    assert f"\n  elsewhere: {thin} (64x4096x4096)\n" in single[1]
    assert not any(name in single[1] for name in (wide, none))
    assert [line.split()[0] for line in double[1].splitlines()][1:] == [wide, "2"]
    assert (
        f"\nno rate: {none} on nvidia-made-up, float32: not_supported: needs M > 5000\n" in result
    )
    short, _ = final_table.summary(made, 10, 200)
    assert all(name in short for name in (wide, thin, none))


def test_of_several_datasets_one_is_a_table_and_each_other_a_line(dataset, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = [
        Path("redrawn") / f"{name}/default" / "best.csv"
        for name in ("cpu-x", "nvidia-h100", "nvidia-h200", "nvidia-z")
    ]
    for path in made:
        shutil.copytree(dataset, path.parent)
    result, _ = final_table.summary({"aggregate": made}, 24, 100)
    lines = result.strip().splitlines()
    assert len(lines) <= 24 - final_table.AROUND + 4
    assert max(len(line) for line in lines if "best.csv" not in line) <= 100
    assert [line for line in lines if line.startswith("NVIDIA Made Up, M=4096")] == lines[:1]
    assert str(made[2]) in result
    others = [line for line in lines if line.startswith("redrawn/")]
    assert [line.split(":")[0] for line in others] == [
        str(made[index].parent) for index in (0, 1, 3)
    ]
    best = csv_files.read_csv(dataset / "best.csv").query(
        "problem == '4096' and state == 'warm' and precision.isna()"
    )
    fastest = best[~best["kernel"].str.startswith("cublas")].sort_values("tflops").iloc[-1]
    line = (
        f"{fastest['kernel']} {fastest['tflops']:.4g} TFLOP/s, {100 * fastest['ratio']:.1f} % "
        "of cublas at 4096, float32, warm"
    )
    assert line in final_table.in_a_line(made[0].parent, 999)


def test_an_interval_that_says_nothing_is_not_printed_as_numbers(dataset, tmp_path):
    """Of two processes it may reach from 0 to any number."""
    folder = shutil.copytree(dataset, tmp_path / "copy")
    best = csv_files.read_csv(folder / "best.csv")
    ends = ["ratio_low", "ratio_high", "tflops_low", "tflops_high"]
    best.loc[best["kernel"] == "05_register_tile", ends] = (0.0, 1228.64, 0.0, 1e5)
    csv_files.write_csv(best, folder / "best.csv")
    (line,) = (line for line in final_table.table(folder, 60, 999) if "05_register_tile" in line)
    assert re.search(r" \d+\.\d %  +not known$", line)
    assert not re.search("0.0 to|122864", "\n".join(final_table.table(folder, 60, 999)))


def test_a_table_keeps_to_the_columns_of_the_screen(dataset):
    wide, narrow = (final_table.table(dataset, 60, columns) for columns in (999, 80))
    assert max(map(len, wide)) > 80
    assert max(len(line) for line in narrow if "best.csv" not in line) <= 80
    assert [line.split()[0] for line in narrow] == [line.split()[0] for line in wide]
    assert any("…" in line for line in narrow)
    for columns in (60, 40, 30):
        table = final_table.table(dataset, 60, columns)
        assert max(len(line) for line in table if "best.csv" not in line) <= columns
        # whatever is left out, the ratio is kept
        assert all(" %" in line for line in table if re.match(r"  \d\d_", line)), table


@pytest.mark.parametrize("name", ["best.csv", "summary.csv", "costs.csv", "environment.json"])
@pytest.mark.parametrize("garbage", [b"\xff\xfe\0garbage", b"kernel,problem\n1,2\n", b"[]", b""])
def test_a_damaged_file_is_a_line_that_names_it(dataset, tmp_path, name, garbage):
    folder = shutil.copytree(dataset, tmp_path / dataset.name)
    (folder / name).write_bytes(garbage)
    with pytest.raises(InputError, match=re.escape(str(folder / name))):
        final_table.summary({"aggregate": [folder / "best.csv"]}, 24, 80)


def test_a_run_that_measured_nothing_says_so(dataset, tmp_path):
    (first, *_), best = (dataset / "samples").glob("*.parquet"), dataset / "best.csv"
    made = {"measure": [first], "confirm": [dataset / "confirmed.parquet"], "aggregate": [best]}
    assert final_table.nothing_measured(made, {first}) == ""
    assert final_table.nothing_measured({"compile": [best]}, {best}) == ""  # for want of a device
    forced = tmp_path / first.name
    rows, session = samples.read(first)
    samples.write(
        forced,
        [row | {"time": "2026-01-02T12:00:00+00:00"} for row in rows],
        session | {"measured": 0},
    )
    # neither were jobs forced whose journals had everything
    for files, written in ((made, set()), (made, {best}), ({"measure": [forced]}, {forced})):
        message = final_table.nothing_measured(files, written)
        assert message.startswith(
            "Nothing was measured: all measurements are from earlier runs, the last of 2026-01-0"
        )


def test_times_that_are_no_result_are_told_at_the_end(dataset, tmp_path):
    folder = shutil.copytree(dataset, tmp_path / dataset.name)
    best = csv_files.read_csv(folder / "best.csv")
    assert final_table.doubtful(folder) == []
    reason = "timed while other processes used 1.7 cores; no energy"
    best.loc[best.index[:3], ["marks", "reason"]] = ["multimodal; disturbed", reason]
    itself = (
        (best["kernel"] == "cublas")
        & (best["problem"].isin(["256", "4096"]))
        & (best["state"] == "warm")
    )
    best.loc[itself, ["marks", "ratio", "ratio_low", "ratio_high"]] = [
        "unsteady",
        1.1,
        0.619,
        1.953,
    ]
    best.loc[best.index[3], "marks"] = "unsteady"
    csv_files.write_csv(best, folder / "best.csv")
    rated = best["tflops"].notna().sum()
    assert final_table.doubtful(folder) == [
        f"Warning: nvidia-made-up: timed while other processes used 1.7 cores (3 of {rated} rows, "
        "marked disturbed)",
        "Warning: nvidia-made-up: no ratio is a result at 256 warm, 4096 warm: cublas timed beside "
        "itself has 110.0 % (95 % interval 61.9 to "
        "195.3) at the first. Measure again while nothing else runs",
    ]
    result, _ = final_table.summary({"aggregate": [folder / "best.csv"]}, 60, 200)
    assert "no ratio is a result at 256 warm, 4096 warm" in result
    csv_files.write_csv(best.assign(marks="multimodal; disturbed"), folder / "best.csv")
    assert final_table.in_a_line(folder, 200).endswith(", float32, warm; disturbed")
