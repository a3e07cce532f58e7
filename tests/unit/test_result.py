"""What a run ends with, of made-up tables."""

import re
import shutil
from pathlib import Path

import pytest
import synthetic
from ladder.analysis.dataset import Dataset
from ladder.core import verdicts
from ladder.core.errors import InputError
from ladder.core.places import HOME
from ladder.model.kernel_file import discover
from ladder.pipeline import final_table
from ladder.storage import csv_files, samples
from planted import written


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """A dataset with the tables that a run leaves."""
    folder = tmp_path_factory.mktemp("results") / "default" / "nvidia-made-up"
    synthetic.write(folder, problems=synthetic.SMALL, processes=3)
    for name, table in Dataset.open(folder, discover(HOME).values()).tables().items():
        csv_files.write_csv(table, folder / f"{name}.csv")
    return folder


@pytest.fixture
def tables(dataset, tmp_path):
    """A copy of the dataset, and a function that gives it other tables."""
    folder = shutil.copytree(dataset, tmp_path / dataset.name)
    read = {name: csv_files.read_csv(folder / f"{name}.csv") for name in ("best", "summary")}
    read = {name: table.astype({"problem": str, "reason": object}) for name, table in read.items()}

    def write():
        for name, table in read.items():
            csv_files.write_csv(table, folder / f"{name}.csv")
        return final_table.Result.read(folder)

    return read, write


def at_4096(dataset):
    """The rows of `best.csv` that a table shows."""
    best = csv_files.read_csv(dataset / "best.csv")
    return best[(best["problem"] == "4096") & (best["state"] == "warm")]


def compiled(folder, *rows):
    """A resources.csv of these rows."""
    lines = ["kernel,configuration,arch,status,reason", *rows, ""]
    return written(folder / "resources.csv", "\n".join(lines))


def test_the_table_has_every_kernel_at_one_size_in_the_order_of_the_ladder(dataset):
    page = dataset.parent / "index.html"
    result, failures = final_table.summary([dataset / "best.csv", page], 200, 162.4, ["Also this."])
    assert failures == ""
    best = at_4096(dataset).set_index("kernel")
    lines = result.strip().splitlines()
    assert lines[0] == "Gemm Ladder · campaign default · NVIDIA Made Up · cuBLAS 13.1.0 · 2:42"
    assert re.fullmatch(
        r"  4096 × 4096 × 4096, float32, warm +TFLOP/s  × cublas +configuration", lines[2]
    )
    shown = {line.split()[0]: line for line in lines[3 : 3 + len(best)]}
    context = ["20_tensor_cores", "cublas_tf32", "cublaslt_best"]
    rungs = [kernel for kernel in synthetic.SHARES if kernel[0].isdigit() and kernel not in context]
    assert list(shown) == [*rungs, "cublas", *context]
    assert shown.pop("cublas").split()[2:] == ["1", "-"]
    ran = {}
    for kernel, line in shown.items():
        row = best.loc[kernel]
        rate, ran[kernel] = (
            verdicts.plus_minus(*row[[name, f"{name}_low", f"{name}_high"]])
            for name in ("tflops", "ratio")
        )
        words = f"{rate.split()[0]} {ran[kernel]} {row['configuration']}"
        assert words in re.sub(" +", " ", line)
    fastest = max(rungs, key=best["ratio"].get)
    end = lines[4 + len(best) :]
    assert end == [
        f"  ±: half the 95 % interval, between-process. {fastest} ran {ran[fastest]} times as fast "
        "as cublas.",
        f"  2 other problems: {dataset / 'best.csv'}",
        "",
        f"Kernels correct on nvidia-made-up: {len(rungs) + 1} of {len(rungs) + 1}.",
        "Also this.",
        "",
        f"Explore   {page}",
        "Next      .venv/bin/ladder new mine --cpu   write a kernel and compare it",
    ]


def test_what_is_not_right_is_named_with_its_reason(tables, tmp_path):
    read, write = tables
    summary = read["summary"].set_index("kernel")
    # of one row of the first, and of all of the second
    label = summary.loc["03_shared_tile", "configuration"].iloc[0]
    first = summary.index.get_loc("03_shared_tile").start
    summary["problem"] = summary["problem"].replace("64x4096x4096", "64x4096x4096 padding=1,0,2")
    summary.iloc[first, summary.columns.get_indexer(["status", "reason"])] = [
        "incorrect",
        "C[0][0] is off\nand more",
    ]
    summary.loc["05_register_tile", ["status", "reason"]] = ["timeout", "x" * 999]
    summary.loc["07_double_buffer", ["status", "reason"]] = ["not_supported", "too large"]
    read["summary"] = summary.reset_index()
    result = write()
    row = summary.iloc[first]
    path = compiled(
        tmp_path / "build",
        '90_x,BX=8,sm_90,compile_error,"nvcc says\nx.cu(3): error: what?\nfoo"',
        "02_y,-,sm_90,skipped,no",
        "02_z,-,cpu-x,compiled,",
    )
    rows = csv_files.read_csv(path, text=True).to_dict("records")
    refused, incorrect, timeout, hint = final_table.failures([result], rows)
    assert refused == "cuda/90_x: compile_error in 1 row(s); BX=8 for sm_90: x.cu(3): error: what?"
    assert incorrect == (
        f"cuda/03_shared_tile: incorrect in 1 row(s); {label} on {row['problem']}: C[0][0] is off"
    )
    words = f"--problem {row['m']}x{row['n']}x{row['k']}"
    words += "".join(f" --{pair}" for pair in row["problem"].split()[1:])
    words += "".join(f" --set {pair}" for pair in label.split())
    assert hint == (
        f"`.venv/bin/ladder try kernels/cuda/03_shared_tile.cu {words}` shows the first incorrect "
        "element"
    )
    assert re.match(r"cuda/05_register_tile: timeout in \d+ row\(s\); .*xxx…$", timeout)
    assert len(timeout) < final_table.REASON + 150
    assert final_table.correct(result) == "Kernels correct on nvidia-made-up: 7 of 9."
    # what does not compile has no element
    assert final_table.failures([], rows) == [refused]


def test_what_only_was_compiled_drawn_or_counted_is_said(tmp_path):
    build = compiled(
        tmp_path / "build" / "sm_80" / "02_y", "02_y,-,sm_80,compiled,", "02_y,-,sm_90,compiled,"
    )
    counters = written(tmp_path / "counters.csv", "kernel,reason\na,no ncu\nb,no ncu\n")
    page = tmp_path / "index.html"
    result, failures = final_table.summary([build, counters, page], 80)
    assert result.strip().splitlines() == [
        "1 kernel compiled for sm_80, sm_90, not measured.",
        f"Counters of 2 kernels: {counters} (no ncu)",
        "",
        f"Explore   {page}",
    ]
    assert failures == ""


def test_a_run_that_only_draws_what_is_published_ends_with_that(dataset, tmp_path):
    redrawn = tmp_path / "results" / "redrawn" / "nvidia-made-up" / "default"
    shutil.copytree(dataset, redrawn)
    page = written(redrawn.parents[1] / "index.html", "")
    made = [redrawn / "best.csv", redrawn / "summary.csv", page]
    result, failures = final_table.summary(made, 200)
    assert failures == ""
    assert result.strip().startswith("Gemm Ladder · campaign default · NVIDIA Made Up")
    assert "\n1 published dataset redrawn in results/redrawn/: identical.\n" in result
    assert result.endswith(f"Explore   {page}")
    both, _ = final_table.summary([*made, dataset / "best.csv"], 200)
    assert both.count("Gemm Ladder · ") == 1
    assert str(page) not in both


def test_every_kernel_that_was_chosen_is_named_whatever_it_was_measured_on(tables):
    """One in another element type, one on another problem, one on none."""
    wide, thin, none = "05_register_tile", "07_double_buffer", "08_padded_shared"
    read, write = tables
    best = read["best"]
    elsewhere = (best["kernel"] == thin) & (best["problem"] != "64x4096x4096")
    best.loc[elsewhere | (best["kernel"] == none), "tflops"] = float("nan")
    for table in read.values():
        table.loc[table["kernel"] == wide, "element_type"] = "float64"
    table = "\n".join(final_table.table(write(), 200))
    single, double = re.split(r"^  4096 × 4096 × 4096, (?=float)", table, flags=re.M)[1:]
    assert f"\n  Without a rate in float32 here: {thin}, {none}\n" in single
    assert wide not in single
    assert [words.split()[0] for words in filter(None, double.splitlines())] == [
        "float64,",
        wide,
        "±:",
        "2",
    ]


def test_every_dataset_of_a_campaign_is_shown_and_of_published_ones_the_headline(
    dataset, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    names = ("cpu-x", "nvidia-h100", "nvidia-h200", "nvidia-z")
    redrawn = [Path("redrawn") / name / "default" / "best.csv" for name in names]
    own = [Path("mine") / name / "best.csv" for name in names]
    for path in redrawn + own:
        shutil.copytree(dataset, path.parent)
    for made, shown in ((redrawn, redrawn[2:3]), (own, own), (redrawn + own, own)):
        result, _ = final_table.summary(made, 100)
        assert re.findall(r"other problems: (.*)", result) == list(map(str, shown))
        assert result.count("Gemm Ladder · ") == len(shown)


def test_an_interval_that_says_nothing_is_not_printed_as_numbers(tables):
    """Of two processes it may reach from 0 to any number."""
    read, write = tables
    best = read["best"]
    ends = ["ratio_low", "ratio_high", "tflops_low", "tflops_high"]
    best.loc[best["kernel"] == "05_register_tile", ends] = (0.0, 1228.64, 0.0, 1e5)
    table = "\n".join(final_table.table(write(), 999))
    assert re.search(r"^  05_register_tile .* [\d.]+ ± \? ", table, re.M)
    assert not re.search("0.0 to|122864", table)


def test_a_table_keeps_to_the_columns_of_the_screen(dataset):
    result = final_table.Result.read(dataset)
    wide = final_table.table(result, 999)
    assert max(map(len, wide)) > 80
    for columns in (80, 40):
        rungs = [line for line in final_table.table(result, columns) if re.match(r"  \d\d_", line)]
        assert len(rungs) == 9
        assert max(map(len, rungs)) <= columns
        assert any("…" in line for line in rungs)
        assert all(" ± " in line for line in rungs)


@pytest.mark.parametrize("name", ["best.csv", "summary.csv", "environment.json"])
@pytest.mark.parametrize("garbage", [b"\xff\xfe\0garbage", b"kernel,problem\n1,2\n", b"[]", b""])
def test_a_damaged_file_is_a_line_that_names_it(dataset, tmp_path, name, garbage):
    folder = shutil.copytree(dataset, tmp_path / dataset.name)
    (folder / name).write_bytes(garbage)
    with pytest.raises(InputError, match=re.escape(str(folder / name))):
        final_table.summary([folder / "best.csv"], 80)


def test_a_run_that_measured_nothing_says_so(dataset, tmp_path):
    (first, *_), best = (dataset / "samples").glob("*.parquet"), dataset / "best.csv"
    made = [first, dataset / "confirmed.parquet", best]
    assert final_table.nothing_measured(made, {first}) == ""
    assert final_table.nothing_measured([best], {best}) == ""  # for want of a device
    forced = tmp_path / first.name
    rows, session = samples.read(first)
    rows = [row | {"time": "2026-01-02T12:00:00+00:00"} for row in rows]
    samples.write(forced, rows, session | {"measured": 0})
    # neither were jobs forced whose journals had everything
    for files, done, verb in (
        (made, set(), "do"),
        (made, {best}, "measure"),
        ([forced], {forced}, "measure"),
    ):
        message = final_table.nothing_measured(files, done)
        assert message.startswith(f"Nothing to {verb}: measured 2026-01-0")
        assert "\n" not in message


def test_times_that_are_no_result_are_told_at_the_end(tables):
    read, write = tables
    best = read["best"]
    assert final_table.doubtful(write()) == []
    reason = "timed while other processes used 1.7 cores; no energy"
    best.loc[best.index[:3], ["marks", "reason"]] = ["multimodal; disturbed", reason]
    itself = (best["kernel"] == "cublas") & (best["state"] == "warm")
    itself &= best["problem"].isin(["256", "4096"])
    columns = ["marks", "ratio", "ratio_low", "ratio_high"]
    best.loc[itself, columns] = ["unsteady", 1.1, 0.619, 1.953]
    best.loc[best.index[3], "marks"] = "unsteady"
    result = write()
    assert final_table.doubtful(result) == [
        f"Warning: nvidia-made-up: 3 of {best['tflops'].notna().sum()} values are flagged "
        "`disturbed`: timed while other processes used 1.7 cores",
        "Warning: nvidia-made-up: ratios at 256 warm, 4096 warm are unreliable: cublas is 1.1 ± 0.9 "
        "times as fast as itself at the first. Measure again on an idle machine",
    ]
    printed, _ = final_table.summary([result.folder / "best.csv"], 200)
    assert "ratios at 256 warm, 4096 warm are unreliable" in printed
    assert "times as fast as cublas" not in printed
