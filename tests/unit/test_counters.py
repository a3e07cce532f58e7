"""What is read of Nsight Compute, by a handwritten sample of its output, and what happens without
it.
"""

import sys

import pandas as pd
import pytest
from ladder.measuring import counters
from ladder.measuring.counters import METRICS, NotCounted, count, parse, profile
from ladder.model import kernel_file
from planted import ROOT, written

NAMES = list(METRICS.values())
SAMPLE = (
    "==PROF== Connected to process 4242 (/usr/bin/python3.12)\n"
    'a line of the program: "gemm", 1,234\n'
    '==PROF== Profiling "gemm" - 0: 0%....50%....100% - 5 passes\n'
    "==PROF== Disconnected from process 4242\n"
    '"ID","Process ID","Kernel Name","Block '
    'Size","l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum","dram__bytes_read.sum",'
    '"dram__bytes_write.sum","smsp__issue_active.avg.pct_of_peak_sustained_active","sm__inst_executed.sum"\n'
    '"","","","","sector","byte","byte","%","inst"\n'
    '"0","4242","gemm","(256, 1, 1)","100,663,296","134,250,000","1,024","71.50","n/a"\n'
)
TASK = {"kernel": "kernels/cuda/01_naive.cu", "functions": ["gemm", "reduce"]}


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ("", [100663296, 134.25e6, 1024, 71.5, None]),
        # launches of one kernel are summed, and shares averaged
        (
            '"1","4242","gemm","(256, 1, 1)","4","1,000,000","1,000","61.50","7"\n',
            [100663300, 135.25e6, 2024, 66.5, 7],
        ),
    ],
)
def test_a_table_is_read(again, expected):
    names = [name.strip('"') for name in SAMPLE.split('"ID"')[1].split('\n"",')[0].split(",")[4:]]
    metrics = parse(SAMPLE + again)
    assert [metrics.pop(name, None) for name in names] == pytest.approx(expected)
    assert metrics == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have "
            "permission\n==PROF== x\n",
            "ERR_NVGPUCTRPERM - The user",
        ),
        ("==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
        (SAMPLE.split('"0"')[0], "ncu gave no counts"),
        ("", "it printed nothing"),
    ],
)
def test_no_table_is_a_reason(text, reason):
    with pytest.raises(NotCounted, match=reason):
        parse(text)


def test_a_long_launch_counts_for_more_in_a_ratio():
    heads = f'"ID","{counters.CYCLES}","smsp__issue_active.avg.pct_of_peak_sustained_active"\n"","cycle","%"\n'
    text = heads + '"0","3,000","90"\n"1","1,000","50"\n'
    assert parse(text) == {"smsp__issue_active.avg.pct_of_peak_sustained_active": 80}


def fake_ncu(folder, body):
    written(folder / "ncu", f"#!{sys.executable}\n{body}\n", 0o755)


def test_ncu_is_run_from_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotCounted, match="not on the PATH"):
        profile(TASK)
    good = (
        "sys.argv[-3:-1] == ['-m', 'ladder.measuring.counters'] and 'regex:^(gemm|reduce)$' in "
        "sys.argv"
    )
    fake_ncu(tmp_path, f"import sys\nassert {good}, sys.argv\nprint({SAMPLE!r})")
    assert profile(TASK)["dram__bytes_write.sum"] == 1024
    fake_ncu(tmp_path, "import signal\nsignal.pause()")
    monkeypatch.setattr(counters, "SECONDS", 0.01)
    with pytest.raises(NotCounted, match=r"no counts within 0\.01 s"):
        profile(TASK)


def test_the_reasons_that_warps_wait_for_most_come_first(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    stalls = {"barrier": 0.25, "long_scoreboard": 1.5, "math_pipe_throttle": 0.75, "wait": 0.125}
    names = [counters.STALLS[name] for name in stalls]
    lines = [
        ["ID", "Kernel Name", *names],
        ["", "", *["inst"] * 4],
        ["0", "gemm", *map(str, stalls.values())],
    ]
    table = "".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines)
    fake_ncu(
        tmp_path,
        f"import sys\nassert {names[0]!r} in ' '.join(sys.argv), sys.argv\nprint({table!r})",
    )
    expected = "long scoreboard 1.5, math pipe throttle 0.75, barrier 0.25"
    assert counters.stalls(profile(TASK, counters.STALLS.values())) == expected
    assert count([(dict.fromkeys(counters.KEY, 1), TASK)])["stalls"].tolist() == [expected]


def test_where_the_first_has_no_counts_the_others_are_not_tried():
    asked = []

    def refuse(task):
        asked.append(task)
        raise NotCounted("ERR_NVGPUCTRPERM")

    key = dict.fromkeys(counters.KEY, 1)
    table = count([(key, {"a": 1}), (key, {"a": 2})], refuse)
    assert (len(asked), table["reason"].tolist()) == (1, ["ERR_NVGPUCTRPERM"] * 2)
    table = count([(key, {})], lambda task: parse(SAMPLE))
    assert table["reason"].isna().all()
    assert table["dram_read_bytes"].tolist() == [134.25e6]


def test_the_largest_square_up_to_the_limit_is_counted(tmp_path):
    kernel = kernel_file.discover(ROOT)["cuda/02_naive_coalesced"]
    row = {
        "kernel": kernel.name,
        "configuration": "BX=32 BY=8",
        "element_type": "float32",
        "alpha": 1,
        "beta": 0,
        "padding": 0,
        "distribution": "uniform",
        "state": "warm",
        "tflops": 1.0,
    }
    sizes = [(1024, 1024), (4096, 4096), (8192, 8192), (4096, 64)]
    best = pd.DataFrame(
        [
            row | {"m": m, "n": n, "k": n, "problem": str(m) if m == n else f"{m}x{n}x{n}"}
            for m, n in sizes
        ]
        + [row | {"kernel": "cublas", "m": 2048, "n": 2048, "k": 2048, "problem": "2048"}]
        + [row | {"m": 4096, "n": 4096, "k": 4096, "problem": "4096 padding=3", "padding": 3}]
    )
    resources = pd.DataFrame([row | {"binary": "x.cubin", "sha256": "abc"}])
    origin = {"device": "nvidia-x", "uuid": "GPU-1", "commit": "c0ffee", "dirty": False}
    ((key, task),) = counters.tasks(
        best, resources, {kernel.name: kernel}, tmp_path, tmp_path / "support.bin", origin
    )
    assert (key["m"], task["problem"]["m"], task["uuid"]) == (4096, 4096, "GPU-1")
    (line,) = count([(key, task)], lambda task: parse(SAMPLE)).to_dict("records")
    assert [line[name] for name in (*counters.ORIGIN, "binary_sha256")] == [
        "nvidia-x",
        "GPU-1",
        "c0ffee",
        False,
        "abc",
    ]
    assert task["binary"] == str(tmp_path / kernel.name / "x.cubin")
    assert task["problem"]["padding"] == 0
    assert task["functions"] == ["gemm"]
    assert (
        counters.tasks(best[:0], resources, {kernel.name: kernel}, tmp_path, tmp_path, origin) == []
    )
