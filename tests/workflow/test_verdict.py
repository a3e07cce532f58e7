"""The verdict of `ladder try` as data."""

import json
import os
from dataclasses import fields

import ladder
import pytest
from ladder.core import yaml_schema
from ladder.measuring import verdict
from planted import written
from trying import Trials, stay_in_process

GRID = ["--block", "16,16", "--grid", "ceil_div(N, min(16, 16)),ceil_div(M,16)"]
BARE = "// python: {}\n"
OF_BATCH = "right(); c *= 1 + 1e-6 * (p.distribution == 'repeated' and p.m == 1)"
"""Other bits in a batch of one row."""


@pytest.fixture
def trials(tmp_path, monkeypatch, capsys, gpus):
    """An empty folder of kernels, and a simulated GPU to try them on."""
    stay_in_process(monkeypatch)
    return Trials(tmp_path / "root", monkeypatch, capsys)


def verdicts(text):
    """The verdicts in lines of JSON, each of which has the published form."""
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    for each in found:
        yaml_schema.check(each, "verdict", "a verdict")
    return found


def judged(trials, *arguments, code=0):
    """The verdict of one try, which alone is on stdout; and what people read."""
    text = trials.ladder("try", *arguments, "--json", "-", code=code)
    (one,) = verdicts(text)
    assert text.startswith("{")
    return one, text.partition("\n")[2]


def test_the_schema_has_the_fields_of_the_classes():
    schema = json.loads((yaml_schema.SCHEMAS / "verdict.schema.json").read_text())
    forms = schema["$defs"] | {"verdict": schema}
    del forms["device"], forms["problem"]  # plain data
    for name, form in forms.items():
        names = [field.name for field in fields(getattr(verdict, name.title().replace("_", "")))]
        assert list(form["properties"]) == names == form["required"], name


@pytest.mark.parametrize(
    ("does", "code", "expected"),
    [
        ("right()", 0, {"status": "correct"}),
        (
            "right(ldb=p.n)",
            1,
            {
                "status": "incorrect",
                "guess": "leading dimension: N is used instead of ldb",
                "wrong": {"problem": "M=127 N=1 K=63 padding=1 exact", "elements": 127},
            },
        ),
        ("right(alpha=float('nan'))", 1, {"wrong": {"got": "nan"}}),
        ("right(); outside() if p.k % 8 else 0", 1, {"needs": "needs: [K % 8 == 0]"}),
        ("die(11)", 1, {"status": "launch_error", "wrong": None, "us": None}),
        ("hang()", 1, {"status": "timeout"}),
        ("slow(9); right()", 0, {"of_rung": None}),
        (OF_BATCH, 0, {"bits": {"every_launch": "same", "rows": "differ", "alignment": "same"}}),
    ],
)
def test_a_verdict_says_as_data_what_the_text_says(trials, does, code, expected):
    one, text = judged(trials, trials.write(does), "--size", "32", code=code)
    (result,) = one["problems"]
    (outcome,) = result["outcomes"]
    for name, value in expected.items():
        if isinstance(value, dict):
            assert outcome[name].items() >= value.items()
        else:
            assert outcome[name] == value
    assert one["status"] == result["status"] == outcome["status"]
    assert one["reason"] == outcome["reason"]
    assert one["command"] == ["ladder", "try", "kernels/cuda/mine.cu", "--size=32"]
    assert f"\n{one['status']}; " in text
    assert outcome["reason"] in text
    assert (one["device"]["slug"], outcome["binary"]["registers"]) == ("simulated", 32)
    assert list(one["source"]) == ["mine.cu"]
    if code == 0:
        ratio, times = outcome["ratio"], outcome["samples_us"]
        assert ratio["low"] <= ratio["value"] <= ratio["high"]
        assert len(times) == len(outcome["reference_us"]) >= 6
        assert f"; {verdict.Estimate(**ratio)} × cublas; " in text
        said = "differ: rows", "    rows: row 0, column 0 is ", "M=1 N=32 K=32 repeated; on M=200"
        assert {each in text for each in said} == {does == OF_BATCH}


def test_problems_and_types_of_a_campaign_in_one_call(trials):
    """What a kernel does not take is said of each problem, and hinders no other."""
    header = "element_types: [float32, float64]\nneeds: [K % 32 == 0]\n"
    campaign = "{campaign: x, problems: {cuda: [{square: [64, 33]}, [5, 6, 32]]}, beta: 0.5"
    written(trials.root / "c.yaml", campaign + ", element_types: [float32, float64], kernels: all}")
    one, text = judged(trials, trials.write("right()", header), "--problems", "c.yaml")
    found = [
        (result["problem"]["element_type"], result["problem"]["m"], result["status"])
        for result in one["problems"]
    ]
    sizes = [(5, "correct"), (33, "not_supported"), (64, "correct")]
    assert found == [(name, *size) for name in ("float32", "float64") for size in sizes]
    assert {result["problem"]["beta"] for result in one["problems"]} == {0.5}
    assert text.count("\nnot_supported: mine: ") == text.count(" K % 32 == 0") == 2
    assert trials.history() == [one]
    again = trials.ladder("try", *one["command"][2:])
    assert again.count("since the last correct try: the same machine code") == 2


def test_what_fails_on_a_problem_is_not_tried_on_the_next(trials):
    header = "parameters: {P: 1}\nsweep: {P: [1, 2]}\n"
    path = trials.write("right(alpha=P if p.m == 40 else p.alpha)", header)
    one, _ = judged(trials, path, "--problems", "[{square: [40, 50]}]", "--alpha=1", code=1)
    assert [
        [(each["configuration"], each["status"]) for each in result["outcomes"]]
        for result in one["problems"]
    ] == [[("P=1", "correct"), ("P=2", "incorrect")], [("P=1", "correct")]]
    one, text = judged(
        trials, trials.write("right(alpha=3)"), "--problems", "[{square: [8, 9]}]", code=1
    )
    assert [problem["m"] for problem in one["not_measured"]] == [9]
    assert "\nnot measured: 9\nincorrect; " in text


def test_what_is_measured_within_the_budget_is_kept_and_the_rest_is_named(trials, virtual_clock):
    header = "parameters: {P: 1}\nsweep: {P: [1, 2, 3]}\n"
    path = trials.write("right(); slow(1e6 if P == 2 else 1)", header)
    one, text = judged(trials, path, "--problems", "[{square: [8, 9]}]", "--budget", "1")
    assert [(each["status"], each["reason"]) for each in one["problems"][0]["outcomes"]] == [
        ("correct", ""),
        ("correct", ""),
        ("skipped", "within the budget"),
    ]
    assert "\nnot tried within the budget: P=3\nnot measured: 9\ncorrect; " in text
    assert [problem["m"] for problem in one["not_measured"]] == [9]
    one, _ = judged(trials, path, "--size=8", "--budget=0", code=2)
    assert "--budget 0: used up before anything was measured; expected more" in one["reason"]
    assert [problem["m"] for problem in one["not_measured"]] == [8]


@pytest.mark.parametrize("header", ["", "sidecar", "file"])
def test_a_file_anywhere_with_a_header_in_it_beside_it_or_none(trials, tmp_path, header):
    """It includes what lies beside it. Two files of one name do not meet."""
    given = [] if header else GRID
    head = "/*---\ntitle: t\nidea: i\nblock: [16]\ngrid: [1]\n---*/\n" if header == "file" else ""
    paths = [tmp_path / name / "mine.cu" for name in ("a", "b")]
    for path, does in zip(paths, ("right()", "slow(2); right()"), strict=True):
        written(path, head + '#include "own.h"\n' + BARE.format(does))
        (path.parent / "own.h").write_text("// mine\n")
        if header == "sidecar":
            path.with_suffix(".yaml").write_text("block: [16, 16]\ngrid: ['ceil_div(N, 16)', 3]\n")
    before = sorted(tmp_path.glob("[ab]/*"))
    for turn in range(2):
        text = trials.ladder("try", *map(str, paths), "--size=32", *given, "--json=out")
        assert text.count("the same machine code") == 2 * turn
    for one in verdicts((trials.root / "out").read_text()):
        expected = {"mine.cu", "own.h"} | ({"mine.yaml"} if header != "file" else set())
        assert one["source"].keys() == expected
        assert trials.ladder(*one["command"][1:])
    assert sorted(tmp_path.glob("[ab]/*")) == before


REFUSED = [
    ("bare.cu", "---*/ of YAML, bare.yaml beside it, or --block and --grid"),
    ("bare.cu --block 16", "no header; expected"),
    ("kernels/cuda/mine.cu --grid 1", "--grid 1: "),
    ("bare.cu --block 16 --grid x", "/bare.cu: header: grid: expression `x`: unknown na"),
    ("gone.cu", "gone.cu: cannot be read: "),
    ("pipe.c", "pipe.c: a pipe, a device or a folder; expected a regular file"),
    ("kernels/cuda/mine.cu --problems gone.yaml", "gone.yaml: cannot be read: "),
    (
        "kernels/cuda/mine.cu --problems [] --size 8",
        "--problems []: expected no --size and no --pr",
    ),
    ('kernels/cuda/mine.cu --problems {"problems":[3]}', "problems.cuda[0]: got 3; expected"),
    ("kernels/cuda/mine.cu --problems [3]", "--problems [3]: problems.cuda[0]: got 3; expected"),
    (
        "kernels/cuda/mine.cu --problems {problem:3}",
        "--problems {problem:3}: expected problems.cuda",
    ),
    ("kernels/cuda/mine.cu --problems=", ".: cannot be read: Is a directory"),
    ("bare.c --block 16", "/bare.c is no CUDA kernel"),
    ("kernels/cuda/mine.cu --type float32,half", "--type half: expected one of the element_types"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_what_cannot_be_tried_is_a_verdict_too_and_ends_nothing_else(trials, arguments, message):
    for name in ("bare.cu", "bare.c"):
        written(trials.root / name, BARE.format("right()"))
    os.mkfifo(trials.root / "pipe.c")
    good = trials.write("right()", name="good"), "--size=8"
    trials.write("right()")
    one, text = judged(trials, *arguments.split(), code=2)
    assert one["status"] == "not_tried"
    assert message in one["reason"]
    assert text == f"Error: {one['reason']}\n"
    if "--" not in arguments:
        text = trials.ladder("try", arguments, *good, "--json=out", code=2)
        statuses = [each["status"] for each in verdicts((trials.root / "out").read_text())]
        assert statuses == ["not_tried", "correct"]


@pytest.mark.parametrize("path", ["kernels/cuda/mine.cu", "kernels", "gone/x.json", "pipe"])
@pytest.mark.parametrize(
    "command", ["try kernels/cuda/mine.cu --size=8", "gate main", "compare a b"]
)
def test_a_file_for_json_is_refused_before_anything_is_done(trials, command, path):
    before = (trials.root / trials.write("right()")).read_text()
    os.mkfifo(trials.root / "pipe")
    text = trials.ladder(*command.split(), "--json", path, code=2)
    assert f"argument --json: got '{path}'; expected a file in a folder that exists" in text
    assert (trials.root / "kernels/cuda/mine.cu").read_text() == before
    assert not trials.kept.exists()


@pytest.mark.parametrize("seconds", ["nan", "-1", "soon"])
@pytest.mark.parametrize("command", ["try a.cu", "check r.json", "gate main"])
def test_a_budget_is_a_number_of_seconds(trials, command, seconds):
    text = trials.ladder(*command.split(), f"--budget={seconds}", code=2)
    assert f"argument --budget: got '{seconds}'; expected seconds, 0 or more" in text


def test_from_python_an_argument_of_another_form_is_an_error_and_any_path_is_none(trials):
    with pytest.raises(ladder.InputError, match="--budget: got '-1'; expected seconds"):
        ladder.judge("mine.cu", budget=-1)
    assert "-x.cu: cannot be read: No such file" in ladder.judge("-x.cu").reason
    assert ladder.judge("-x.cu", set={"BM": 64}).command[-1] == "--set=BM=64"


def test_a_folder_that_cannot_be_written_has_a_verdict_too(trials):
    written(trials.root / "bare.cu", BARE.format("right()"))
    trials.kept.parent.mkdir(exist_ok=True)
    trials.kept.write_text("a file\n")
    one, _ = judged(trials, "bare.cu", "--size=8", *GRID, code=2)
    assert "results/try/given" in one["reason"]
    assert ": cannot be written: Not a directory; " in one["reason"]


def test_one_round_of_a_very_slow_kernel_tells_nothing_apart(trials):
    """A launch far slower than the reference has one sample, whose range is no interval."""
    judged(trials, trials.write("slow(1e6); right()"), "--size=8")
    one, text = judged(trials, trials.write("slow(2e6); right()"), "--size=8")
    (result,) = one["problems"]
    (outcome,) = result["outcomes"]
    assert len(outcome["samples_us"]) == 1
    assert text.count("(interval not known)") == 3
    assert result["since"]["verdict"] == "not distinguishable"
