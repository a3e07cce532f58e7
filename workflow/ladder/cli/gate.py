"""The gate of `ladder gate`: build the kernels of two commits in temporary trees, verify them, time
both in the same rounds, and report what became faster or slower.

`workflow/schemas/gate.schema.json` describes the report, from which the table is made.
"""

import fnmatch
import itertools
import json
import shlex
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NoReturn

import numpy as np

from ladder.cli.trial import show
from ladder.compiling.compile import compile_kernel, compile_support
from ladder.core import clock, places, verdicts
from ladder.core.errors import InputError, one_of, plain
from ladder.core.files import write_text, write_whole
from ladder.devices.detect import DetectedDevice, detect_cpu, detect_gpus, left_out
from ladder.devices.lock import exclusive, uuids
from ladder.measuring import trial
from ladder.measuring.gate import (
    ABSENT,
    APART,
    BASE,
    COMPILED,
    CONTROL,
    ERROR_RATE,
    HEAD,
    LIMITS,
    PASSED,
    RESULTS,
    ROLES,
    Pair,
    Side,
    judge,
    measure,
)
from ladder.measuring.probe import probe
from ladder.measuring.protocol import Candidate
from ladder.measuring.session import Session, now
from ladder.model import campaign_file
from ladder.model.campaign import Campaign, check_memory
from ladder.model.kernel import Configuration, Kernel
from ladder.model.kernel_file import discover, id_of
from ladder.model.problem import Problem

FILES = ("100644", "100755")
"""The modes of plain files in git."""
DIFFERENT = 1
"""The exit code of `git diff --no-index` for what differs."""
Kernels = Mapping[str, Kernel | None]
"""A kernel as the commit of each role has it."""


def run(given: Namespace) -> NoReturn:
    """Run a gate, print and write what it found, and end the process with its exit code."""
    report = gate(given)
    table = markdown(report)
    to_stdout = Path("-") in (given.json, given.markdown)
    print(table, file=sys.stderr if to_stdout else sys.stdout)
    for path, text in ((given.markdown, table), (given.json, json.dumps(report, indent=1))):
        if path:
            write_text(path, text)
    sys.exit(report["exit_code"])


def gate(given: Namespace) -> dict[str, Any]:
    """Return the report of a gate; `given` are the arguments of the command line. Raises
    `InputError` if the gate cannot run.
    """
    start = clock.now()
    commits = _commits(given.commits)
    data, source = campaign_file.read(given.problems, {})
    campaign = campaign_file.load(data | {"kernels": "all", "parameters": {}}, source, {})
    pairs, environments = [], {}
    with TemporaryDirectory(prefix="ladder-gate-") as scratch:
        folder = Path(scratch).resolve()
        for role, commit in (commits | {CONTROL: commits[BASE]}).items():
            _extract(commit, folder / role)
        chosen = _chosen(folder, given.kernels)
        kinds = sorted({id.partition("/")[0] for id in chosen})
        for kind in kinds:
            device, seconds = _device(kind), given.budget / len(kinds)
            built: list[Pair] = []
            for id, kernels in chosen.items():
                if id.startswith(kind):
                    show(f"compiling {id}")
                    built += _built(id, kernels, campaign, device.arch, folder / "build")
            for pair in built if not given.kernels else ():
                if pair.sides[BASE].code == pair.sides[HEAD].code:
                    for side in pair.sides.values():
                        side.candidate = None  # there is nothing to verify
            measured, environments[kind] = _measured(device, built, folder, campaign, seconds)
            pairs += measured
    count = sum(pair.problem is not None for pair in pairs)
    rows = [_row(pair, count, given.fail_if_slower) for pair in pairs]
    found = {row["result"] for row in rows}
    result = next((each for each in RESULTS if each in found), PASSED)
    return {
        "schema": "gemm-ladder/gate/1",
        "result": result,
        "exit_code": RESULTS[result],
        **commits,
        "error_rate": ERROR_RATE,
        "correction": "Bonferroni",
        "comparisons": count,
        "fail_if_slower": given.fail_if_slower,
        "rows": sorted(rows, key=lambda row: str(row["kernel"])),
        "command": ["ladder", *sys.argv[1:]],
        "time": now(),
        "seconds": round(clock.now() - start, 1),
        "environments": environments,
    }


def _git(*arguments: str) -> str:
    """Return what git prints about the project's repository. Raises `InputError` if it refuses, or
    is not installed.
    """
    command = ["git", "-C", str(places.project()), *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        raise InputError(f"git: {error.strerror}; a gate needs it: install git") from None
    if done.returncode not in ((0, DIFFERENT) if "--no-index" in arguments else (0,)):
        raise InputError(
            f"{shlex.join(command)}: {done.stderr.strip()}; expected BASE or BASE..HEAD, commits of "
            "a git repository that have kernels/"
        )
    return done.stdout.strip()


def _commits(text: str) -> dict[str, dict[str, Any]]:
    """Return the base and the head of `BASE` or `BASE..HEAD`. The working tree is `given` as ""."""
    base, dots, head = text.partition("..")
    commits = {}
    for role, given in ((BASE, base), (HEAD, head or "HEAD")):
        commit = _git("rev-parse", "--verify", "--end-of-options", f"{given}^{{commit}}")
        commits[role] = {"given": given, "commit": commit, "dirty": False}
    if not dots:
        dirty = bool(_git("status", "--porcelain", "--", "kernels"))
        commits[HEAD] |= {"given": "", "dirty": dirty}
    return commits


def _extract(commit: Mapping[str, Any], folder: Path) -> None:
    """Copy the kernels of a commit, or of the working tree, to a folder. Raises `InputError` if it
    has what is not copied: links, and in a commit submodules and files with the attribute
    `export-ignore`.
    """
    tree, archive = places.project() / "kernels", f"{folder}.zip"
    if commit["given"]:
        _git("archive", "--output", archive, commit["commit"], "kernels")
        shutil.unpack_archive(archive, folder)
        listed = _git("ls-tree", "-r", "-z", commit["commit"], "kernels")
        odd = [
            name
            for about, _, name in (entry.partition("\t") for entry in listed.split("\0")[:-1])
            if about.split()[0] not in FILES or not (folder / name).is_file()
        ]
    else:
        # editors leave links to nothing
        odd = [
            places.named(path) for path in tree.rglob("*") if path.is_symlink() and path.exists()
        ]
        if tree.exists():
            shutil.copytree(tree, folder / "kernels", ignore_dangling_symlinks=True)
    if odd:
        raise InputError(
            f"{commit['given'] or 'the working tree'}: {odd[0]}: a link, a submodule, or excluded "
            "from archives; expected files in kernels/"
        )


def _chosen(folder: Path, patterns: Sequence[str]) -> dict[str, Kernels]:
    """Return the kernels that match a pattern, by id; without patterns, those that differ. One that
    was renamed has its new id, and each of both names matches. Raises `InputError` for a pattern
    without a kernel, for a header of the head that cannot be used, and for an included file that
    only the working tree has.
    """
    refused: dict[str, InputError] = {}
    trees = {role: discover(folder / role, refused if role == HEAD else None) for role in ROLES}
    if refused:
        raise InputError(str(refused.popitem()[1]).replace(f"{folder / HEAD}/", ""))
    for kernel in [*trees[HEAD].values(), *trees[BASE].values()]:
        for path in kernel.includes:
            if path.is_relative_to(places.project() / "kernels"):
                raise InputError(
                    f"{kernel.path.relative_to(folder)}: includes {path}, which its commit does "
                    "not have; expected it there"
                )
    was = _renamed(folder, trees)
    known = list(dict.fromkeys([*trees[HEAD], *trees[BASE]]))
    for pattern in patterns:
        if not fnmatch.filter(known, pattern):
            raise InputError(f"--kernels: got {pattern}; {one_of(pattern, known)}")
    kernels: dict[str, Kernels] = {}
    for id in known:
        old = was.get(id, id)
        head, base = trees[HEAD].get(id), trees[BASE].get(old)
        differs = old != id or (head and head.digest) != (base and base.digest)
        named = any(fnmatch.filter([id, old], pattern) for pattern in patterns)
        if id not in was.values() and (named if patterns else differs):
            kernels[id] = {BASE: base, CONTROL: trees[CONTROL].get(old), HEAD: head}
    return kernels


def _renamed(folder: Path, trees: Mapping[str, Mapping[str, Kernel]]) -> dict[str, str]:
    """Return the ids that kernels of the head had in the base, if git takes them for renamed."""
    new, gone = trees[HEAD].keys() - trees[BASE], trees[BASE].keys() - trees[HEAD]
    if not new:
        return {}
    options = "--no-index", "--name-status", "-z", "--find-renames", "--diff-filter=R"
    folders = (str(folder / role / "kernels") for role in (BASE, HEAD))
    ids = [id_of(Path(name)) for name in _git("diff", *options, *folders).split("\0")]
    pairs = zip(ids[1::3], ids[2::3], strict=True)
    return {head: base for base, head in pairs if head in new and base in gone}


def _device(kind: str) -> DetectedDevice:
    devices = detect_gpus() if kind == "cuda" else [detect_cpu()]
    if not devices:
        why = "; ".join(["no usable GPU was found here", *left_out()])
        raise InputError(f"cannot time CUDA kernels: {why}; expected one, or --kernels 'cpu/*'")
    return devices[0]


def _built(
    id: str, kernels: Kernels, campaign: Campaign, arch: str, folder: Path
) -> Iterator[Pair]:
    """Yield a kernel with its sides compiled, in those of the campaign's element types and layouts
    that either commit has it in, or else in all of these; for batches if the campaign has some.
    """
    known = [kernel for role in (HEAD, BASE) if (kernel := kernels[role])]
    types = list(dict.fromkeys(each for kernel in known for each in kernel.element_types))
    has = {(layout, False) for kernel in known for layout in kernel.layouts}
    has |= {(layout, True) for kernel in known if kernel.batch for layout in kernel.layouts}
    forms = [each for each in campaign.forms(known[0].kind) if each in has]
    # what the base computes exactly, the head has to compute as exactly
    exact = not all(kernel.precision for kernel in known)
    for element_type, form in itertools.product(
        [each for each in campaign.element_types if each in types] or types,
        forms or sorted(form for form in has if not form[1]),
    ):
        sides = {
            role: _side(kernel, element_type, form, arch, folder / role / id, exact)
            for role, kernel in kernels.items()
        }
        yield Pair(id, element_type, sides, form=form, was=known[-1].id)


def _side(
    kernel: Kernel | None,
    element_type: str,
    form: tuple[str, bool],
    arch: str,
    folder: Path,
    exact: bool,
) -> Side:
    """Return a kernel of one commit, compiled with the parameters in its header. `exact` says to
    verify it by the element type's precision whatever the header says.
    """
    layout, batched = form
    if not kernel or element_type not in kernel.element_types or layout not in kernel.layouts:
        return Side(ABSENT)
    if batched and not kernel.batch:
        return Side(ABSENT)
    parameters = tuple(kernel.parameters.items())
    configuration = Configuration(element_type, parameters, layout=layout, batched=batched)
    item = configuration, kernel.objection(configuration)
    (row,) = compile_kernel(kernel, [item], arch, folder, 1)
    if row.status != COMPILED:
        return Side(row.status, row.reason)
    names = kernel.name, row.configuration, str(kernel.path), str(folder / row.binary)
    candidate = Candidate(*names, row.sha256, "" if exact else kernel.precision)
    return Side(COMPILED, "", candidate, [row.sha256, *kernel.geometry])


def _measured(
    device: DetectedDevice, pairs: Sequence[Pair], folder: Path, campaign: Campaign, seconds: float
) -> tuple[list[Pair], Mapping[str, Any]]:
    """Verify the kernels of a device kind, and time those that both commits have for so many
    seconds; return them on each problem, and the device's `environment.json`.
    """
    kind = device.kind
    if not campaign.problem_sizes.get(kind):
        raise InputError(f"{campaign.source}: problems.{kind}: got none; expected some to measure")
    check_memory(campaign, kind, device.name, device.memory)
    support = folder / f"support.{kind}"
    write_whole(support, compile_support(kind, device.arch))
    measured: list[Pair] = []
    with exclusive(uuids(device)) as (uuid, lock):
        session = Session(kind, uuid, support, {}, LIMITS.timeout_seconds, lock)
        session.ahead = True
        try:
            show(f"probing {device.name}")
            session.environment = probe(device, session.worker())
            for pair in pairs:
                show(f"checking {pair.kernel}")
                layout, batched = pair.form
                given = Problem(1, 1, 1, pair.element_type, layout=layout, batch=1 + batched)
                run_gauntlet = partial(session.run_gauntlet, problem=given)
                correct = [side.verify(run_gauntlet) for side in pair.sides.values()]
                measured += _on_problems(pair, session, campaign) if all(correct) else [pair]
            timed = sorted(measured, key=lambda pair: pair.problem.flops if pair.problem else 0)
            measure(session, timed, seconds, np.random.default_rng(trial.draw_seed()), show)
        except KeyboardInterrupt:
            session.kill()
            raise
        finally:
            session.end()
            show("")
    return measured, session.environment


def _on_problems(pair: Pair, session: Session, campaign: Campaign) -> list[Pair]:
    """Return a kernel on each problem, launched there once on whole numbers. If it has none of the
    campaign's layouts, the problems have its own and are no batches.
    """
    pairs = []
    every = campaign.problems(pair.kernel.partition("/")[0], pair.element_type)
    own = [problem for problem in every if problem.form == pair.form]
    lone = dict.fromkeys(replace(problem, layout=pair.form[0], batch=1) for problem in every)
    for problem in own or lone:
        sides = {role: replace(side) for role, side in pair.sides.items()}
        for side in sides.values():
            side.verify(partial(session.check_integers, problem=problem))
        pairs.append(replace(pair, sides=sides, problem=problem, processes=[]))
    return pairs


def _row(pair: Pair, count: int, by: float) -> dict[str, Any]:
    """Return a pair, and the verdict on it, as a row of the report."""
    sides = {}
    for role in (BASE, HEAD):
        side = pair.sides[role]
        made = side.candidate or Candidate("", "")
        sides[role] = {
            "status": side.status,
            "reason": side.reason,
            "configuration": made.configuration,
            "sha256": made.sha256,
        }
    where = {"kernel": pair.kernel, "was": pair.was, "element_type": pair.element_type}
    where |= {"problem": pair.problem.label if pair.problem else ""}
    return where | asdict(judge(pair, count, by)) | sides | {"times": pair.processes}


def markdown(report: Mapping[str, Any]) -> str:
    """Return a report as Markdown: for a terminal, a pull request and the summary of a job."""
    commits = []
    for role in (BASE, HEAD):
        commit = report[role]
        name = f"`{commit['given']}`" if commit["given"] else "the working tree"
        changes = ", with changes" if commit["dirty"] else ""
        commits.append(f"{role} {name} ({commit['commit'][:8]}{changes})")
    title = (
        f"**Gate: {report['result']}.** {'; '.join(commits)}; fails if slower by more than "
        f"{report['fail_if_slower']:.2%}."
    )
    if apart := [row["kernel"] for row in report["rows"] if row["verdict"] in APART]:
        title += f" Removed or not compared: {', '.join(dict.fromkeys(apart))}."
    if not report["rows"]:
        return f"{title}\n\nNo kernel differs."
    lines = [
        title,
        "",
        "| kernel | problem | verdict | head / base | base / base |",
        "|---|---|---|---|---|",
    ]
    for row in report["rows"]:
        was = f" (was {row['was']})" if row["was"] != row["kernel"] else ""
        cells = [
            row["kernel"] + was,
            " ".join([row["problem"], row["element_type"]]).strip(),
            ": ".join(filter(None, [row["verdict"], row["reason"]])),
            *(verdicts.plus_minus(*row[of]) if row[of] else "" for of in ("ratio", "control")),
        ]
        cells = [
            plain(" ".join(cell.split()), 300).replace("|", "\\|").replace("<", "&lt;")
            for cell in cells
        ]
        lines.append(f"| {' | '.join(cells)} |")
    if report["comparisons"]:
        lines += [
            "",
            f"Ratios are speeds, so below 1 the head is slower. The {report['comparisons']} intervals "
            f"hold together at {1 - report['error_rate']:.0%} ({report['correction']}): at most "
            f"{report['error_rate']:.0%} of gates of unchanged code call anything faster or slower. "
            "`base / base` times the base's own binary twice.",
        ]
    return "\n".join(lines)
