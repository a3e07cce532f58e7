"""Receipts: verdicts that another machine can check, since each holds the source and what was
measured. Everything in a receipt is data of a stranger.
"""

import itertools
import json
import math
import re
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ladder.cli import trial
from ladder.cli.trial_verdict import binary
from ladder.core import clock, verdicts, yaml_schema
from ladder.core.errors import MEASURE_AGAIN, InputError, one_of, plain
from ladder.core.files import digest, write_whole
from ladder.measuring.trial import WITHIN_BUDGET
from ladder.measuring.verdict import SCHEMA, Estimate, OnProblem, Outcome, Verdict
from ladder.model.kernel import INCLUDE, KIND_OF, Configuration, Kernel
from ladder.model.kernel_file import known, parse
from ladder.model.problem import VARIED, Problem, joined

MOST_BYTES = 2_000_000
"""The size of a receipt, at most."""
WITHIN = 0.05
"""How far a ratio may be from the receipt's, as a share, and count as reproduced: a choice. It has
to leave room for what processes differ by, which the interval of one does not include.
"""
REPRODUCED, NOT_REPRODUCED = "reproduced", "not reproduced"
NOT_CHECKED, ANOTHER = "not checked", "another device"
CODES = {
    NOT_REPRODUCED: 3,
    verdicts.SAME: MEASURE_AGAIN,
    NOT_CHECKED: MEASURE_AGAIN,
    ANOTHER: 6,
    REPRODUCED: 0,
}
"""The exit code of each answer; the first of them that an outcome has counts for all."""
Measured = dict[Problem, tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Problems, with what a receipt has of them and of one configuration there."""
COLUMNS = {
    "us": ("median_us", "low_us", "high_us"),
    "tflops": ("tflops", "tflops_low", "tflops_high"),
    "ratio": ("ratio", "ratio_low", "ratio_high"),
}
"""The columns of `best` with the values of an outcome and the ends of their intervals."""
HOST_CODE = (".c", ".py")
"""Kernels in these languages run on the host, or are compiled by what they say there."""
NAME = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.+-]*/)*[A-Za-z0-9_][A-Za-z0-9_.+-]*")
"""The name of a file of a kernel: it leads out of no folder."""
MOST_CHARACTERS = 200
"""Of such a name."""


def of_campaign(folder: Path, names: Sequence[str]) -> str:
    """Return the receipt of a dataset: the best configurations of its kernels, or of those with
    these names, on each problem, caches warm.

    Raises `InputError` if the folder has no dataset, if a kernel's source no longer makes the
    binary that was measured, and for more than `MOST_BYTES`.
    """
    # importing pandas takes longer than a check
    from ladder.analysis.dataset import Dataset
    from ladder.analysis.measurements import candidate

    dataset = Dataset.open(folder)
    environment, best = dataset.environment, dataset.best
    best = best[(best["state"] == "warm") & best["ratio_low"].notna()]
    own = [name for name in best["kernel"].unique() if name in known()]
    for name in names:
        if name not in own:
            raise InputError(f"{folder}: got the kernel {name}; {one_of(name, own)}")
    made = {candidate(row): row for row in dataset.resources.to_dict("records")}
    lines = []
    for name in names or own:
        kernel, results = known()[name], []
        for row in best[best["kernel"] == name].to_dict("records"):
            built = made[candidate(row)]
            configuration = Configuration.of(row["element_type"], row["configuration"])
            entry = trial.compiled_alone(kernel, configuration, built["arch"])
            if entry.resource.sha256 != built["sha256"]:
                raise InputError(
                    f"{kernel.path}: {configuration.label}: its binary is not the one that was "
                    "measured; expected the source and the compiler of that run"
                )
            measured: dict[str, Any] = {
                name: Estimate(*(row[column] for column in columns))
                for name, columns in COLUMNS.items()
            }
            outcome = Outcome(
                configuration.label, "correct", binary=binary(entry.resource), **measured
            )
            problem = Problem(
                **{name: row[name] for name in ("m", "n", "k", "element_type", *VARIED)}
            )
            marks = verdicts.busy(row["marks"])
            results.append(
                OnProblem(
                    problem, "correct", [outcome], row["reference"], row["interval"], marks=marks
                )
            )
        device = {each: environment[each] for each in ("name", "kind")}
        device |= {"slug": environment["device"], "arch": built["arch"]}
        verdict = Verdict(
            kernel.id,
            kernel.path.name,
            "correct",
            command=["ladder", "receipt", str(folder), name],
            time=environment["time"],
            device=device,
            problems=results,
            environment=environment,
            sha256=kernel.digest,
            source=kernel.sources,
        )
        lines.append(verdict.json() + "\n")
    text = "".join(lines)
    if len(text) > MOST_BYTES:
        raise InputError(
            f"{folder}: its receipt has {len(text)} bytes; expected at most {MOST_BYTES}: name "
            "fewer kernels"
        )
    return text


def read(path: Path) -> list[dict[str, Any]]:
    """Return the verdicts in a receipt. Raises `InputError` if it is none, of another form, or
    without a result.
    """
    if path.is_file() and path.stat().st_size > MOST_BYTES:
        raise InputError(f"{path}: {path.stat().st_size} bytes; expected at most {MOST_BYTES}")
    text = yaml_schema.read(path)
    try:
        found = [json.loads(line) for line in text.splitlines()]
    except (ValueError, RecursionError):
        found = [None]
    for number, data in enumerate(found or [None], 1):
        where = f"{path}: line {number}"
        form = data.get("schema") if isinstance(data, dict) else None
        if not isinstance(form, str) or not form.startswith(SCHEMA.rpartition("/")[0]):
            raise InputError(
                f"{where}: no receipt; expected what `ladder try --json` writes, an object a line"
            )
        if form != SCHEMA:
            raise InputError(
                f"{where}: schema: got {yaml_schema.shorten(form)}; expected {SCHEMA}, which this "
                "version of Gemm Ladder reads: install that which wrote it"
            )
        yaml_schema.check(data, "verdict", where)
        if not _asked(data):
            raise InputError(f"{where}: {data['file']} was not tried there; expected results")
    return found


def check(given: Namespace) -> int:
    """Measure again what a receipt holds, print the answers, and return the exit code. Raises
    `InputError` if a verdict cannot be checked here.
    """
    found, answers = read(given.receipt), []
    kernels = [_rebuilt(data, given.receipt) for data in found]
    for kernel in kernels:
        if not given.trust and kernel.path.suffix in HOST_CODE:
            raise InputError(
                f"{kernel.path}: is a program that runs with your rights, from a receipt; expected "
                "--trust once you have read it, or --sandbox (docs/trust.md)"
            )
    deadline = clock.now() + given.budget
    for data, kernel in zip(found, kernels, strict=True):
        print(f"{kernel.id}: the source is that of the receipt, {kernel.digest[:16]}", flush=True)
        environment: Mapping[str, Any] = {}
        for (label, *_), measured in _asked(data).items():
            verdict = _again(kernel, label, list(measured), max(0, deadline - clock.now()))
            environment = verdict.environment or environment
            same = (verdict.device or {}).get("slug") == (data["device"] or {}).get("slug")
            results = {result.problem: result for result in verdict.problems}
            for problem, (then, before) in measured.items():
                answer, words = NOT_CHECKED, verdict.reason or WITHIN_BUDGET
                if problem in results:
                    answer, words = _answer(then, before, results[problem], same)
                where = problem.label if label == "-" else f"{problem.label}, {label}"
                print(plain(f"  {where}: {answer}: {words}"), flush=True)
                answers.append(answer)
        for line in _differences(data["environment"], environment) if environment else ():
            print(plain(f"  {line}"))
    worst = min(answers, key=list(CODES).index)
    print(f"{worst}; {answers.count(REPRODUCED)} of {len(answers)} reproduced")
    return CODES[worst]


def _asked(data: Mapping[str, Any]) -> dict[tuple[str, str, int], Measured]:
    """Return what a verdict has of each configuration that ran, in an element type and with a seed,
    the fastest first.
    """
    asked: dict[tuple[str, str, int], Measured] = {}
    for then in data["problems"]:
        for before in then["outcomes"]:
            if before["status"] not in ("skipped", "compiled"):
                problem = _as_here(Problem(**then["problem"]))
                key = before["configuration"], problem.element_type, problem.seed
                asked.setdefault(key, {})[problem] = then, before
    return asked


def _as_here(problem: Problem) -> Problem:
    """Return a problem as campaigns write it: padding `1,1,2` is 1."""
    padding, offset = joined(problem.paddings, 2), joined(problem.offsets)
    return replace(problem, padding=padding, offset=offset)


def _rebuilt(data: Mapping[str, Any], source: Path) -> Kernel:
    """Return the kernel of a verdict, whose files are written. Raises `InputError` unless its digest
    is that which the verdict names.
    """
    files: Mapping[str, str] = data["source"]
    kind, first = data["kernel"].partition("/")[0], next(iter(data["source"]), "")
    for name, text in files.items():
        if not NAME.fullmatch(name) or len(name) > MOST_CHARACTERS:
            raise InputError(f"{source}: source: got {yaml_schema.shorten(name)}; expected a name")
        for included in itertools.chain(*INCLUDE.findall(text)):
            if included.startswith("/") or ".." in Path(included).parts:
                raise InputError(
                    f"{source}: source: got #include {yaml_schema.shorten(included)}; expected "
                    "files of the receipt"
                )
    if KIND_OF.get(Path(first).suffix) != kind or first != Path(first).name:
        raise InputError(f"{source}: source: got {yaml_schema.shorten(first)}; expected a kernel")
    folder = trial.folder() / "receipts" / digest(files) / kind
    for name, text in files.items():
        path = (folder.parent if name.startswith("include/") else folder) / name
        write_whole(path, text.encode(errors="replace"))
    kernel = parse(folder / first)
    if kernel.digest != data["sha256"]:
        raise InputError(
            f"{source}: sha256: got {yaml_schema.shorten(data['sha256'])}; expected "
            f"{kernel.digest}, which its source has: something else was measured"
        )
    return kernel


def _again(kernel: Kernel, label: str, problems: Sequence[Problem], seconds: float) -> Verdict:
    """Return the verdict here on a configuration, on problems of one element type and seed. Raises
    `InputError` if it cannot be tried here, for another reason than the time.
    """
    from ladder.cli.main import Refusing, parser

    asked = {"problems": {kernel.kind: list(map(_entry, problems))}, "seed": problems[0].seed}
    words = ["try", str(kernel.path), f"--problems={json.dumps(asked)}", f"--budget={seconds}"]
    words.append(f"--type={problems[0].element_type}")
    words += [f"--set={pair}" for pair in Configuration.of("", label).assignments]
    (verdict,) = trial.judged(parser(Refusing).parse_args(words))
    begun = verdict.device and (verdict.problems or verdict.not_measured)
    if verdict.status == trial.NOT_TRIED and not begun:
        raise InputError(verdict.reason)
    return verdict


def _entry(problem: Problem) -> dict[str, Any]:
    """Return a problem as campaigns have it."""
    entry = {name.upper(): getattr(problem, name) for name in "mnk"}
    entry |= {name: getattr(problem, name) for name in VARIED}
    for name in ("padding", "offset"):
        if isinstance(entry[name], str):
            entry[name] = [yaml_schema.typed(part) for part in entry[name].split(",")]
    return entry


def _answer(
    then: Mapping[str, Any], before: Mapping[str, Any], now: OnProblem, same_device: bool
) -> tuple[str, str]:
    """Return whether an outcome is reproduced, one of `CODES`, and both outcomes in words."""
    after = now.outcomes[0]
    if after.reason == WITHIN_BUDGET:
        return NOT_CHECKED, after.reason
    if after.status != before["status"]:
        return NOT_REPRODUCED, f"{after.status} here, {before['status']} in the receipt"
    if not (after.ratio and before["ratio"]):
        return REPRODUCED if same_device else ANOTHER, f"{after.status} here and in the receipt"
    was, here = Estimate(**before["ratio"]), after.ratio
    words = f"of {now.reference} {here} here, {was} in the receipt"
    if not same_device:
        return ANOTHER, words
    if marks := dict.fromkeys([*now.marks, *then["marks"]]):
        return verdicts.SAME, f"{words}; measure again: {', '.join(marks)}"
    most, log = math.log(1 + WITHIN), math.log  # of each: a stranger's quotient may be 0
    quotient = log(here.value) - log(was.value)
    low = quotient - math.hypot(log(here.value / here.low), log(was.high) - log(was.value))
    high = quotient + math.hypot(log(here.high / here.value), log(was.value) - log(was.low))
    if -most <= low <= high <= most:
        return REPRODUCED, words
    return NOT_REPRODUCED if low > most or high < -most else verdicts.SAME, words


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a measurement depends on and that is not as in the receipt."""
    was, here = (each.get("fingerprint", {}) for each in (then, now))
    for name in sorted({*was, *here}):
        if was.get(name) != here.get(name):
            yield f"{name}: {yaml_schema.shorten(was.get(name))} there, {yaml_schema.shorten(here.get(name))} here"
