"""What is read of Nsight Compute, by handwritten output, and what happens without it."""

import sys

import pandas as pd
import pytest
from ladder.measuring import counters
from ladder.measuring.counters import METRICS, NotCounted, count, parse, profile
from ladder.model import kernel_file
from planted import HOME, written

SUMS = ["global_read_sectors", "dram_read_bytes", "dram_write_bytes", "instructions"]
METRIC = [METRICS[name] for name in SUMS]
SHARE = METRICS["issue_percent"]
TASK = {"kernel": "kernels/cuda/01_naive.cu", "functions": ["gemm", "reduce"]}
KEY = dict.fromkeys(counters.KEY, 1)


def printed(metrics, *launches):
    """What ncu prints of some metrics, by launch."""
    rows = [["ID", "Kernel Name", *metrics], ["", "", *["inst"] * len(metrics)]]
    rows += [[str(number), "gemm", *values] for number, values in enumerate(launches)]
    lines = [",".join(f'"{cell}"' for cell in row) for row in rows]
    return "\n".join(
        ['==PROF== Profiling "gemm" - 0: 0%', 'of the program: "gemm", 1,234', *lines, ""]
    )


FIRST, SECOND = ["100,663,296", "134,250,000", "1,024", "n/a"], ["4", "1,000,000", "1,000", "7"]
SAMPLE = printed(METRIC, FIRST)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SAMPLE, dict(zip(METRIC, [100663296, 134.25e6, 1024], strict=False))),
        # launches of one kernel are summed
        (
            printed(METRIC, FIRST, SECOND),
            dict(zip(METRIC, [100663300, 135.25e6, 2024, 7], strict=True)),
        ),
        # and shares averaged, where a long launch counts for more
        (printed([SHARE], ["71.50"], ["61.50"]), {SHARE: 66.5}),
        (printed([counters.CYCLES, SHARE], ["3,000", "90"], ["1,000", "50"]), {SHARE: 80}),
    ],
)
def test_a_table_is_read(text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "==PROF== a\n==ERROR== ERR_NVGPUCTRPERM - The user\n==PROF== x\n",
            "ERR_NVGPUCTRPERM - The",
        ),
        ("==WARNING== No kernels were profiled.\n", "No kernels were profiled"),
        (printed(METRIC), "ncu gave no counts"),
        ("", "it printed nothing"),
    ],
)
def test_no_table_is_a_reason(text, reason):
    with pytest.raises(NotCounted, match=reason):
        parse(text)


@pytest.fixture
def ncu(tmp_path, monkeypatch):
    """Puts a program in place of ncu, alone on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return lambda body: written(tmp_path / "ncu", f"#!{sys.executable}\n{body}\n", 0o755)


def test_ncu_is_run_from_the_path(ncu, monkeypatch):
    with pytest.raises(NotCounted, match="not on the PATH"):
        profile(TASK)
    good = (
        "sys.argv[-3:-1] == ['-m', 'ladder.measuring.counters'] and 'regex:^(gemm|reduce)$' in "
        f"sys.argv and {METRIC[0]!r} in ' '.join(sys.argv)"
    )
    ncu(f"import sys\nassert {good}, sys.argv\nprint({SAMPLE!r})")
    assert profile(TASK)[METRICS["dram_write_bytes"]] == 1024
    ncu("import signal\nsignal.pause()")
    monkeypatch.setattr(counters, "SECONDS", 0.01)
    with pytest.raises(NotCounted, match=r"no counts within 0\.01 s"):
        profile(TASK)


def test_the_reasons_that_warps_wait_for_most_come_first(ncu):
    waits = {"barrier": "0.25", "long_scoreboard": "1.5", "math_pipe_throttle": "0.75", "wait": "0"}
    table = printed([counters.STALLS[name] for name in waits], waits.values())
    ncu(f"print({table!r})")
    expected = "long scoreboard 1.5, math pipe throttle 0.75, barrier 0.25"
    assert count([(KEY, TASK)])["stalls"].tolist() == [expected]


def test_where_the_first_has_no_counts_the_others_are_not_tried():
    asked = []

    def refuse(task):
        asked.append(task)
        raise NotCounted("ERR_NVGPUCTRPERM")

    table = count([(KEY, {"a": 1}), (KEY, {"a": 2})], refuse)
    assert (len(asked), table["reason"].tolist()) == (1, ["ERR_NVGPUCTRPERM"] * 2)


def test_the_largest_square_up_to_the_limit_is_counted(tmp_path):
    kernel = kernel_file.discover(HOME)["cuda/02_naive_coalesced"]
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

    def rated(m, n, extra="", **others):
        problem = (str(m) if m == n else f"{m}x{n}x{n}") + extra
        return row | {"m": m, "n": n, "k": n, "problem": problem} | others

    best = pd.DataFrame(
        [
            *(rated(m, n) for m, n in [(1024, 1024), (4096, 4096), (8192, 8192), (4096, 64)]),
            rated(2048, 2048, kernel="cublas"),
            rated(4096, 4096, " padding=3", padding=3),
        ]
    )
    resources = pd.DataFrame([row | {"binary": "x.cubin", "sha256": "abc"}])
    origin = {"device": "nvidia-x", "uuid": "GPU-1", "commit": "c0ffee", "dirty": False}
    given = resources, {kernel.name: kernel}, tmp_path, tmp_path / "support.bin", origin
    ((key, task),) = counters.tasks(best, *given)
    assert (key["m"], task["problem"]["m"], task["problem"]["padding"]) == (4096, 4096, 0)
    assert task["binary"] == str(tmp_path / kernel.name / "x.cubin")
    assert (task["uuid"], task["functions"]) == ("GPU-1", ["gemm"])
    (line,) = count([(key, task)], lambda task: parse(SAMPLE)).to_dict("records")
    expected = origin | {"binary_sha256": "abc", "dram_read_bytes": 134.25e6}
    assert {name: line[name] for name in expected} == expected
    assert counters.tasks(best[:0], *given) == []
