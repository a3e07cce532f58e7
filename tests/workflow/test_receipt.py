"""Receipts, and what runs in the container."""

import json
import os
import sys

import pytest
from ladder.cli import sandbox
from ladder.cli.receipt import MOST_BYTES
from planted import written
from trying import Trials, simulate_cpu, stay_in_process

RIGHT = "right(); C = 1"


@pytest.fixture
def trials(tmp_path, monkeypatch, capsys, gpus):
    """An empty folder of kernels, and a simulated GPU to try them on."""
    stay_in_process(monkeypatch)
    return Trials(tmp_path / "root", monkeypatch, capsys)


def receipt(trials, does="slow(2); right()", code=0, header="", **changes):
    """The receipt of a try of a kernel that includes a file, as it is or changed; removes both
    files.
    """
    source = trials.root / "own" / "mine.cu"
    written(
        source,
        f"/*---\ntitle: t\nidea: i\nblock: [1]\ngrid: [1]\n{header}---*/\n" + '#include "a.h"\n',
    )
    source.write_text(f"{source.read_text()}// python: {does}\n")
    written(source.parent / "a.h", "// mine\r\n")
    problems = "[{square: [64, 96]}, {square: 32, beta: 0.5, padding: [1, 0, 2]}]"
    problems = f"{{problems: {{cuda: {problems}}}, seed: 5}}"
    trials.ladder("try", str(source), "--problems", problems, "--json", "r.json", code=code)
    for path in source.parent.iterdir():
        path.unlink()
    data = json.loads((trials.root / "r.json").read_text())
    (trials.root / "r.json").write_text(json.dumps(data | changes))
    return data


def changed(trials, change):
    """Change the receipt: each outcome, or the whole."""
    data = json.loads((trials.root / "r.json").read_text())
    for result in data["problems"]:
        change(data, result, result["outcomes"][0])
    (trials.root / "r.json").write_text(json.dumps(data))


def scaled(factor, spread=1.0):
    def change(data, result, outcome):
        ratio = outcome["ratio"]["value"] * factor
        outcome["ratio"] = {"value": ratio, "low": ratio / spread, "high": ratio * spread}

    return change


def written_out(problem):
    """Name three numbers in a problem where one says all."""
    for name in ("padding", "offset"):
        if not isinstance(problem[name], str):
            problem[name] = f"{problem[name]},{problem[name]},{problem[name]}"


ANSWERS = [
    (lambda *_: None, 0, "reproduced"),
    (scaled(1.02), 0, "reproduced"),
    (lambda _, result, __: written_out(result["problem"]), 0, "reproduced"),
    (scaled(1.2), 3, "not reproduced"),
    (scaled(0.8), 3, "not reproduced"),
    (scaled(1.04, 1.04), 5, "not distinguishable"),
    (lambda data, result, _: result.update(marks=["disturbed"]), 5, "not distinguishable"),
    (lambda data, *_: data["device"].update(slug="other"), 6, "another device"),
    (lambda data, _, outcome: outcome.update(status="incorrect"), 3, "not reproduced"),
]


@pytest.mark.parametrize(("change", "code", "answer"), ANSWERS)
def test_what_a_receipt_holds_is_measured_again(trials, change, code, answer):
    """On the same problems, from the source in it alone."""
    receipt(trials)
    changed(trials, change)
    output = trials.ladder("check", "r.json", code=code)
    labels = ["32 beta=0.5 padding=1,0,2", "64", "96"]
    for label in labels:
        assert f"\n  {label}: {answer}: " in output
    assert output.endswith(f"\n{answer}; {3 * (code == 0)} of 3 reproduced\n")


def test_layouts_and_batches_are_measured_again(trials):
    path = trials.write("right()", "layouts: [nn, nt]\nbatch: true\n")
    forms = "--layout", "nn,nt", "--batch", "1,3"
    trials.ladder("try", path, "--size", "64", *forms, "--json", "r.json")
    output = trials.ladder("check", "r.json")
    assert "\n  64: reproduced: " in output
    assert "\n  64 layout=nt, layout=nt: reproduced: " in output
    assert "\n  64 layout=nt batch=3, layout=nt batched: reproduced: " in output
    assert output.endswith("\nreproduced; 4 of 4 reproduced\n")


BY_P = "parameters: {P: 1}\nsweep: {P: [1, 2, 3]}\n"


def test_each_configuration_is_measured_again(trials):
    """One fails on the first problem, and is not tried on the others."""
    receipt(trials, "slow(P); right() if P < 3 else right(alpha=3)", 1, BY_P)
    output = trials.ladder("check", "r.json")
    for line in (" 64, P=1: reproduced: of", " 96, P=2: ", " 32 beta=0.5 padding=1,0,2, P=2: "):
        assert f"\n {line}" in output
    assert output.count("P=3: reproduced: incorrect here and in the receipt") == 1
    assert output.endswith("\nreproduced; 7 of 7 reproduced\n")
    changed(trials, lambda data, result, _: scaled(2)(data, result, result["outcomes"][1]))
    output = trials.ladder("check", "r.json", code=3)
    assert output.endswith("\nnot reproduced; 4 of 7 reproduced\n")


def test_what_the_budget_leaves_out_is_not_reproduced(trials, virtual_clock):
    receipt(trials, "right(); slow(1e6 if P == 2 else 1)", header=BY_P)
    output = trials.ladder("check", "r.json", "--budget=1", code=5)
    assert output.count("P=2: not checked: within the budget\n") == 2
    assert output.endswith("\nnot distinguishable; 6 of 9 reproduced\n")
    output = trials.ladder("check", "r.json", "--budget=0", code=5)
    assert output.count(": not checked: --budget 0: used up before anything was measured") == 9
    assert output.endswith("\nnot checked; 0 of 9 reproduced\n")


def test_a_fault_is_reproduced_too_and_what_differs_is_named(trials, gpus):
    receipt(trials, "right(alpha=3)", code=1)
    gpus.write_text(json.dumps(json.loads(gpus.read_text()) | {"driver": "2.0"}))
    output = trials.ladder("check", "r.json")
    assert ": reproduced: incorrect here and in the receipt\n" in output
    assert '\n  driver: "1.0" there, "2.0" here\n' in output


@pytest.mark.parametrize(
    ("change", "code", "printed"),
    [
        (lambda data, *_: data["environment"].update(fingerprint={"\x1b[2J": 1}), 0, "\\x1b[2J: 1"),
        (lambda data, result, _: result.update(marks=["\x1b[2J"]), 5, "again: \\x1b[2J"),
        (
            lambda data, _, outcome: outcome.update(
                ratio={"value": 1e18, "low": 5e-324, "high": 5e-324}
            ),
            5,
            "not distinguishable",
        ),
        (lambda data, _, outcome: outcome.update(configuration="A=1,2"), 2, "such as BM=64 BN=64"),
    ],
)
def test_what_a_stranger_wrote_is_printed_as_text_and_computed_as_numbers(
    trials, change, code, printed
):
    receipt(trials)
    changed(trials, change)
    output = trials.ladder("check", "r.json", code=code)
    assert printed in output and "\x1b" not in output


def test_the_gravest_answer_counts(trials):
    receipt(trials)
    text = (trials.root / "r.json").read_text()
    changed(trials, scaled(2))
    (trials.root / "r.json").write_text(f"{text}\n{(trials.root / 'r.json').read_text()}\n")
    assert "\nnot reproduced; 3 of 6 reproduced\n" in trials.ladder("check", "r.json", code=3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sha256": "0"}, 'r.json: sha256: got "0"; expected '),
        ({"source": {"../../mine.cu": ""}}, 'source: got "../../mine.cu"; expected a name'),
        ({"source": {"/mine.cu": ""}}, 'source: got "/mine.cu"; expected a name'),
        ({"source": {"include/mine.cu": ""}}, 'source: got "include/mine.cu"; expected a kernel'),
        ({"source": {"mine.c": ""}}, 'source: got "mine.c"; expected a kernel'),
        ({"source": {}}, 'source: got ""; expected a kernel'),
        ({"source": {"mine.cu": "#include </proc/kmsg>"}}, 'got #include "/proc/kmsg"; expected'),
        ({"source": {"mine.cu": '# include "a/../b"'}}, 'got #include "a/../b"; expected files of'),
        ({"source": {"mine.cu": "", "a" * 201: ""}}, "expected a name"),
        ({"kernel": "../mine"}, 'source: got "mine.cu"; expected a kernel'),
        ({"kernel": "/mine"}, 'source: got "mine.cu"; expected a kernel'),
        ({"kernel": "\0/mine"}, 'source: got "mine.cu"; expected a kernel'),
        ({"problems": []}, "mine.cu was not tried there; expected results"),
        ({"kernel": 3}, "r.json: line 1: kernel: got 3; expected such as cuda/mine"),
        ({"more": 3}, "line 1: unknown key 'more'"),
        ({"schema": "gemm-ladder/verdict/2"}, 'schema: got "gemm-ladder/verdict/2"; expected gemm'),
        ({"schema": 3}, "r.json: line 1: no receipt; expected what `ladder try --json` writes"),
        ({"reason": "x" * MOST_BYTES}, f"bytes; expected at most {MOST_BYTES}"),
    ],
)
def test_what_a_stranger_wrote_is_refused_in_one_line(trials, changes, message):
    receipt(trials, **changes)
    before = set(trials.root.parent.rglob("*"))
    (line,) = trials.ladder("check", "r.json", code=2).splitlines()
    assert message in line
    made = set(trials.root.parent.rglob("*")) - before
    assert all(path.is_relative_to(trials.kept / "receipts") for path in made)
    assert not made or "sha256" in changes  # else nothing is written


def test_all_is_refused_before_anything_is_measured(trials):
    """The second verdict cannot be checked."""
    one = receipt(trials)
    text = "".join(json.dumps(each) + "\n" for each in (one, one | {"sha256": "0"}))
    (trials.root / "r.json").write_text(text)
    (line,) = trials.ladder("check", "r.json", code=2).splitlines()
    assert 'sha256: got "0"' in line


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 9999, '{"schema": null}'])
def test_a_file_that_is_no_receipt(trials, text):
    (trials.root / "r.json").write_text(text)
    (line,) = trials.ladder("check", "r.json", code=2).splitlines()
    assert "r.json: line 1: no receipt; expected what `ladder try --json` writes" in line
    assert "gone.json: cannot be read" in trials.ladder("check", "gone.json", code=2)


def test_a_program_from_a_receipt_runs_only_if_it_is_trusted(trials, monkeypatch):
    simulate_cpu(monkeypatch)
    monkeypatch.setattr("ladder.core.verdicts.disturbance", lambda *_: "")
    path = trials.write("right()", kind="cpu")
    trials.ladder("try", path, "--size=8", "--json=r.json")
    (line,) = trials.ladder("check", "r.json", code=2).splitlines()
    assert (
        "/cpu/mine.c: is a program that runs with your rights, from a receipt; expected --trust"
        in line
    )
    output = trials.ladder("check", "r.json", "--trust")
    assert output.endswith("reproduced; 1 of 1 reproduced\n")


ENGINE = """#!{python}
import json, os, sys
json.dump(sys.argv[1:], open({log!r}, "w"))
print("{{}}")
sys.exit(int(os.environ.get("CODE", 1)))
"""


@pytest.fixture
def engine(trials, monkeypatch):
    """A stand-in for Podman that writes down its arguments; returns these."""
    log = trials.root / "log"
    written(
        trials.root / "bin" / "podman", ENGINE.format(python=sys.executable, log=str(log)), 0o755
    )
    monkeypatch.setenv("PATH", str(trials.root / "bin"))
    return lambda: json.loads(log.read_text())


def test_a_sandbox_sees_the_kernels_and_nothing_else(trials, engine):
    secret = written(trials.root / "secret", "")
    (trials.root / "own").mkdir()
    (trials.root / "own" / "d.h").symlink_to(secret)
    includes = "b.h", secret, "../secret", "d.h"
    text = "".join(f'#include "{name}"\n' for name in includes)
    written(trials.root / "own" / "a.cu", text)
    (trials.root / "own" / "a.yaml").write_text("{block: [1], grid: [1]}")
    for name in ("own/b.h", "own/c.h", "p.yaml"):
        (trials.root / name).write_text("[{square: 8}]")
    given = "--problems", "p.yaml", "--budget=9", "--set=compiler=nvrtc", "--json=out"
    trials.ladder("try", "own/a.cu", *given, "--sandbox", code=1)
    arguments, own = engine(), f"{trials.root}/own"
    assert [each.split(":")[0] for each in arguments if each.startswith("--volume")] == [
        f"--volume={path}"
        for path in (f"{own}/a.cu", f"{own}/a.yaml", f"{own}/b.h", f"{trials.root}/p.yaml")
    ]
    assert {"--network=none", "--read-only", "--cap-drop=ALL", "--memory=8g"} < set(arguments)
    assert "--device=nvidia.com/gpu=all" in arguments
    words = ["try", f"{own}/a.cu", f"--problems={trials.root}/p.yaml", "--set=compiler=nvrtc"]
    assert arguments[arguments.index(sandbox.IMAGE) + 1 :] == [*words, "--budget=9.0", "--json=-"]
    assert (trials.root / "out").read_text() == "{}\n"


def test_what_a_sandbox_needs_is_said(trials, engine, monkeypatch):
    trials.ladder("new", "mine", "--cpu")
    try_ = "try", "kernels/cpu/mine.c", "--sandbox"
    monkeypatch.setenv("CODE", "0")
    trials.ladder(*try_)
    assert not any("gpu" in each for each in engine())
    monkeypatch.setenv("CODE", "125")
    assert "podman cannot run the image gemm-ladder; build it: `make image`" in trials.ladder(
        *try_, code=2
    )
    monkeypatch.setattr(sandbox, "SECONDS", 0)
    assert "--sandbox: not done within 0 s: it was ended" in trials.ladder(*try_, code=2)
    monkeypatch.setenv("PATH", os.devnull)
    assert "--sandbox: no container engine found; expected podman" in trials.ladder(*try_, code=2)
