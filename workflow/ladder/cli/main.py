"""The command `ladder`: everything besides the run of a campaign, which Snakemake does."""

import math
import os
import re
import shlex
import sys
from argparse import REMAINDER, Action, ArgumentParser, ArgumentTypeError, HelpFormatter, Namespace
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from ladder.core.errors import InputError, clear_errors
from ladder.core.places import check_folders
from ladder.core.types import ELEMENT_TYPES, LAYOUTS

Run = Callable[[Namespace], None]


def publish(parser: ArgumentParser) -> Run:
    """Publish a dataset of this machine. Without arguments, redraw all published datasets and
    update their checksums.

    The command copies the measurements to results/published/DEVICE/CAMPAIGN/RUN and notes WHY in
    results/published/index.yaml. RUN is the time of the run and the first digits of the GPU's UUID.
    Figures and pages then show this dataset. The earlier one becomes a repeat, which keeps only its
    confirmation. SHA256SUMS holds the checksums of the data and of everything drawn from them.
    Redraw all datasets after a change to a figure or to a kernel's model.
    """
    parser.add_argument(
        "dataset", nargs="?", type=Path, metavar="DATASET", help="a folder results/CAMPAIGN/DEVICE"
    )
    parser.add_argument(
        "why", nargs="?", default="", metavar="WHY", help="why it is kept: a sentence for the index"
    )
    parser.add_argument(
        "--repeat",
        action="store_true",
        help="publish it as a repeat of the featured dataset; only `ladder repeat` and the claims "
        "use it",
    )
    parser.add_argument(
        "--not-from-lock",
        action="store_true",
        help="publish it although its packages differ from envs/requirements.lock; the index and "
        "the pages then name them",
    )

    def run(given: Namespace) -> None:
        from ladder.cli import publish
        from ladder.core.places import published

        if given.dataset:
            folder = publish.publish(
                given.dataset, published(), given.why, given.repeat, given.not_from_lock
            )
            print(f"published {folder}; now commit it")
        else:
            for folder in publish.redraw(published()):
                print(f"drew {folder} again")

    return run


def repeat(parser: ArgumentParser) -> Run:
    """Estimate how far published results repeat, on one machine and on others of its model.

    A model of device needs several published runs. The command writes the limits of every problem
    to results/published/repeat-DEVICE.csv, and how often the stated intervals cover other runs to
    repeat-DEVICE.json.
    """

    def run(given: Namespace) -> None:
        from ladder.analysis import repeatability
        from ladder.core.places import published

        written = repeatability.write(published())
        print(
            "\n".join(map(str, written))
            or "no model of device has two published runs with a confirmation"
        )

    return run


def compare(parser: ArgumentParser) -> Run:
    """List what is faster and slower in dataset B than in dataset A, for example after a new
    commit, driver or machine.

    The output starts with the differences between the environments. Then it lists every kernel and
    problem whose times differ by more than runs of the same code do. A and B are datasets, or
    folders with datasets of the same names. For some devices the differences between runs are
    published (`ladder repeat`). For other devices, give three or more runs of the same code before
    B. B is compared with the last of them.

    Exit codes: 0: success. 1: the folders cannot be compared, or the differences between runs are
    unknown. 2: invalid arguments. 3: --fail-if-slower found a slowdown. 4: two folders hold the
    same measurements, because a run measured nothing. 5: --fail-if-slower found no slowdown, but
    times were taken on a busy machine: measure again. At exactly the threshold of --fail-if-slower
    the test detects half of the slowdowns. To catch 2 % reliably, pass 1 %.
    """
    parser.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help="A [A2 A3 ...] B: folders results/CAMPAIGN/DEVICE or results/CAMPAIGN",
    )
    parser.add_argument(
        "--json",
        type=_output,
        metavar="FILE",
        help="write every row, not only what changed, as JSON; to stdout for -, and the text to "
        "stderr",
    )
    parser.add_argument("--figure", type=Path, metavar="STEM", help="draw STEM.svg and STEM.png")
    parser.add_argument(
        "--fail-if-slower",
        type=_percent,
        metavar="PERCENT",
        help="exit with code 3 if a time is significantly longer, and by at least so much, such as 2%%",
    )

    def run(given: Namespace) -> None:
        from ladder.analysis import compare
        from ladder.core.errors import MEASURE_AGAIN, NOTHING_MEASURED
        from ladder.core.places import HOME
        from ladder.storage.dataset_layout import DRAWN_FROM, PUBLISHED

        try:
            comparisons = compare.compare(given.folders, HOME / PUBLISHED)
        except compare.NothingMeasured as error:
            print(f"Error: {error}", file=sys.stderr)
            sys.exit(NOTHING_MEASURED)
        to_stdout = given.json == Path("-")
        text = "\n\n".join(comparison.text() for comparison in comparisons)
        print(text, file=sys.stderr if to_stdout else sys.stdout)
        if given.json:
            compare.write_json(comparisons, given.json)
        for comparison in comparisons if given.figure else ():
            # it imports Matplotlib: only needed if something is drawn
            from ladder.figures.draw import draw_changes

            stem, a = given.figure, comparison.a
            if len(comparisons) > 1:
                stem = stem.with_name(f"{stem.name}-{a.folder.name}")
            other, tables = compare.title(comparison.b), a.tables(DRAWN_FROM)
            draw_changes(comparison.rows, tables, a.environment, other, stem, formats=["png"])
        if given.fail_if_slower is not None:
            if any(len(comparison.slower(given.fail_if_slower)) for comparison in comparisons):
                sys.exit(compare.SLOWER)
            if any(len(comparison.left_open) for comparison in comparisons):
                sys.exit(MEASURE_AGAIN)

    return run


def try_(parser: ArgumentParser) -> Run:
    """Compile, verify and time kernels, and compare each with its last correct try.

    The same rounds time the baseline, the best rung and the last correct try. On a busy machine the
    times are "not a result". Exit codes: 0: correct, however it was timed. 1: incorrect, or it does
    not compile or fails. 2: a kernel could not be tried. The command keeps its files in
    results/try/ and does not touch the results of campaigns.
    """
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="FILE", help="a kernel: .cu, .ptx, .py or .c"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--size", metavar="N", help="M = N = K (on a GPU 4096, on a CPU 256)")
    size.add_argument("--problem", metavar="MxNxK", help="such as 64x4096x4096")
    parser.add_argument(
        "--problems",
        metavar="FILE",
        help="YAML with `problems`, as in a campaign, or a list of them; a campaign will do",
    )
    _add_type(parser, None)
    for name, values in {
        "alpha": "X",
        "beta": "X",
        "padding": "N",
        "offset": "N",
        "distribution": "NAME",
        "layout": "nt",
        "batch": "16",
    }.items():
        parser.add_argument(
            f"--{name}", metavar=values, help=f"the problem's {name}, as in a campaign"
        )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="a parameter's values, such as BM=64,128, instead of the header's sweep; or "
        "compiler=nvrtc, maxrregcount=128, dlcm=cg",
    )
    for name, extents in {"block": "16,16", "grid": "'ceil_div(N, 16),ceil_div(M, 16)'"}.items():
        parser.add_argument(
            f"--{name}",
            metavar="X,Y,Z",
            help=f"of a CUDA kernel without a header, such as {extents}",
        )
    parser.add_argument(
        "--json",
        type=_output,
        metavar="FILE",
        help="write the verdicts as JSON, an object a line; to stdout for -, and the text to stderr",
    )
    _add_budget(parser, "begin nothing more after this time, and name what was not measured")
    parser.add_argument("--watch", action="store_true", help="try the kernel again at every save")
    parser.add_argument(
        "--sandbox",
        action="store_true",
        help="in the container image: no network, read-only, limits of time and memory",
    )
    parser.add_argument(
        "--counters",
        action="store_true",
        help="also Nsight Compute's top reasons for stalls, where it can count",
    )

    def run(given: Namespace) -> None:
        from ladder.devices.detect import detect_cpu
        from ladder.devices.lock import exclusive
        from ladder.measuring.supervisor import Child

        if not given.sandbox and {file.suffix for file in given.files} == {".c"}:
            # the worker imports what it needs while this process does
            slug = detect_cpu().slug
            with suppress(OSError, InputError), exclusive([slug], wait=False):
                given.worker = Child("cpu", slug, None)
        from ladder.cli import trial

        sys.exit(trial.sandboxed(given) if given.sandbox else trial.run(given))

    return run


def receipt(parser: ArgumentParser) -> Run:
    """Print the receipt of a dataset: what `ladder check` needs to measure it again elsewhere.

    It has the source of each kernel, its best configuration on each problem, the times and the
    environment. What `ladder try --json` writes is a receipt too.
    """
    parser.add_argument("dataset", type=Path, metavar="DATASET", help="such as results/default/cpu")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="such as 11_split_k; or all")

    def run(given: Namespace) -> None:
        from ladder.cli import receipt

        print(receipt.of_campaign(given.dataset, given.kernels), end="")

    return run


def check(parser: ArgumentParser) -> Run:
    """Measure again what a receipt holds, and say whether it is reproduced.

    Each configuration is measured on each of its problems. A ratio to the baseline is reproduced if
    it is surely within 5 % of the receipt's. Exit codes: 0: all reproduced. 2: the receipt cannot
    be checked. 3: something is not reproduced. 5: not distinguishable: measure again on an idle
    machine; or not checked within --budget. 6: measured on another device, where all is as correct
    as there.
    """
    parser.add_argument(
        "receipt", type=Path, metavar="RECEIPT", help="a file of JSON, a verdict a line"
    )
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run kernels in C or Triton, which are programs, as you",
    )
    _add_budget(parser, "begin nothing more after this time, and say what was not checked")
    parser.add_argument("--sandbox", action="store_true", help="run in the container image")

    def run(given: Namespace) -> None:
        from ladder.cli import receipt, sandbox

        if given.sandbox:
            path = given.receipt.absolute()
            words = ["check", str(path), "--trust", f"--budget={given.budget}"]
            needs_gpu = any(data["kernel"].startswith("cuda/") for data in receipt.read(path))
            sys.exit(sandbox.run(words, [path], needs_gpu))
        sys.exit(receipt.check(given))

    return run


def _add_type(parser: ArgumentParser, default: str | None = "float32") -> None:
    parser.add_argument(
        "--type", default=default, metavar="TYPE", help=f"{', '.join(ELEMENT_TYPES)} (float32)"
    )


def _add_budget(parser: ArgumentParser, words: str, default: float = math.inf) -> None:
    parser.add_argument("--budget", type=_seconds, default=default, metavar="SECONDS", help=words)


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if (seconds := float(text)) >= 0:
            return seconds
    raise ArgumentTypeError(f"got {text!r}; expected seconds, 0 or more")


def _output(text: str) -> Path:
    """Return the path of a file that can be written, before long work: no kernel, and no folder or
    device, which would be replaced.
    """
    from ladder.model.kernel import KIND_OF

    path = Path(text)
    other = path.exists() and not path.is_file()
    if other or path.suffix in KIND_OF or not path.parent.is_dir():
        raise ArgumentTypeError(
            f"got {text!r}; expected a file in a folder that exists, and no kernel"
        )
    return path


def _percent(text: str) -> float:
    """Return the share that a text such as `2%` gives."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text)
    if not match:
        raise ArgumentTypeError(f"got {text!r}; expected per cent, such as 2%")
    return float(match[1]) / 100


def new(parser: ArgumentParser) -> Run:
    """Write a simple, correct kernel with a header, to start from."""
    parser.add_argument(
        "name",
        metavar="NAME",
        help="letters, digits, _ and -; a leading number places it on the ladder",
    )
    language = parser.add_mutually_exclusive_group()
    for option, start, text in (
        ("--cpu", ".c", "a kernel in C for the CPU instead of a CUDA one"),
        ("--ptx", ".ptx", "a CUDA kernel in PTX instead of C++"),
        ("--tensor", "tensor", "a CUDA kernel of 16-bit elements with tensor maps"),
    ):
        language.add_argument(option, dest="start", action="store_const", const=start, help=text)

    def run(given: Namespace) -> None:
        from ladder.cli import new_kernel

        path = new_kernel.write(given.start or ".cu", given.name)
        print(f"wrote {path}; now: ladder try {shlex.quote(str(path))}")

    return run


def export(parser: ArgumentParser) -> Run:
    """Write a compiled CUDA kernel for another program: the cubin, launch.json, a C++ header and a
    Python module.

    Without a configuration it is the fastest measured one for the GPU's architecture, or the
    kernel's default.
    """
    parser.add_argument("kernel", metavar="KERNEL", help="a CUDA kernel, such as 11_split_k")
    parser.add_argument(
        "configuration",
        nargs="*",
        metavar="NAME=VALUE",
        help="its parameters, such as BM=64; others have their defaults",
    )
    _add_type(parser)
    parser.add_argument("--layout", choices=LAYOUTS, default="nn", help="how A and B lie in memory")

    def run(given: Namespace) -> None:
        from ladder.cli import export

        print(export.export(given.kernel, given.configuration, given.type, given.layout))

    return run


def init(parser: ArgumentParser) -> Run:
    """Begin a project: a folder with a kernel, a campaign, a .gitignore and a file for a CI.

    Files that are there stay.
    """
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="FOLDER",
        help="by default the current one",
    )

    def run(given: Namespace) -> None:
        from ladder.cli import new_kernel

        for path in new_kernel.init(given.folder):
            print(f"wrote {path}")
        there = f"cd {shlex.quote(str(given.folder))}, then: " if given.folder != Path() else ""
        print(f"now: {there}ladder try kernels/cpu/mine.c, then: ladder run config/mine.yaml")

    return run


def run(parser: ArgumentParser) -> Run:
    """Measure a campaign with Snakemake, in the folder of the project.

    The results go to results/. The exit codes are those of the workflow: 0: success. 1: a step
    could not run. 2: a kernel failed. 4: nothing was left to measure.
    """
    parser.add_argument(
        "campaign", metavar="CAMPAIGN", help="a file, or the name of a campaign in config/"
    )
    parser.add_argument(
        "options",
        nargs=REMAINDER,
        metavar="OPTION",
        help="options and targets of Snakemake, such as --dry-run; --cores all is the default",
    )

    def run(given: Namespace) -> None:
        from ladder.cli.run import run

        run(given.campaign, given.options)

    return run


def gate(parser: ArgumentParser) -> Run:
    """Say what a change made faster and slower: time the kernels of two commits in the same rounds.

    It builds the kernels that differ between BASE and HEAD, by default the working tree, verifies
    them, and times both in fresh processes, beside the base's own binary a second time. At most 5 %
    of gates of unchanged code call anything faster or slower; docs/gate.md in the repository says
    how small a change it finds.

    Exit codes: 0: passed. 1: a kernel of HEAD is incorrect, fails or does not compile. 2: the gate
    could not run. 3: a kernel is shown to be slower by more than --fail-if-slower. 5: the machine
    was too busy to tell: measure again.
    """
    parser.add_argument("commits", metavar="BASE[..HEAD]", help="such as main, or v1..v2")
    parser.add_argument(
        "--kernels",
        nargs="+",
        default=[],
        metavar="NAME",
        help="those to time, though they may not differ, such as 'cpu/*'",
    )
    parser.add_argument(
        "--problems",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a campaign whose problems and element types to measure (the default campaign's)",
    )
    _add_budget(parser, "the time for the rounds, about (600)", 600)
    parser.add_argument(
        "--fail-if-slower",
        type=_percent,
        default="5%",
        metavar="PERCENT",
        help="the slowdown that passes (5%%)",
    )
    parser.add_argument("--markdown", type=_output, metavar="FILE", help="write the table")
    parser.add_argument(
        "--json",
        type=_output,
        metavar="FILE",
        help="write the report; to stdout for -, and the table to stderr",
    )

    def run(given: Namespace) -> None:
        from ladder.cli import gate

        gate.run(given)

    return run


COMMANDS: dict[Callable[[ArgumentParser], Run], str] = {
    new: "ladder new mine --cpu",
    try_: "ladder try kernels/cpu/mine.c --size 512 --watch",
    gate: "ladder gate main --fail-if-slower 1%",
    export: "ladder export 11_split_k BM=64 SLICES=4",
    compare: "ladder compare results/default/nvidia-h200 results/nightly/nvidia-h200 "
    "--fail-if-slower 2%",
    receipt: "ladder receipt results/default/nvidia-h200 03_shared_tile",
    check: "ladder check receipt.json --trust",
    init: "ladder init my-kernels",
    run: "ladder run smoke --dry-run",
    publish: "ladder publish results/default/nvidia-h200 'the first run on this GPU'",
    repeat: "ladder repeat",
}
"""The sub-commands, each with an example. Each function adds its arguments to a parser and returns
the function that runs it.

They import their modules when they run, so that `ladder --help` answers at once.
"""


GROUPS = {"new": "kernels", "compare": "results", "init": "a project", "publish": "maintainers"}
"""The heading above a sub-command, in the list of all."""


class _Paragraphs(HelpFormatter):
    """Fills paragraphs to the terminal's width; an example stays on its own line. Puts headings
    above groups of sub-commands.
    """

    def _format_action(self, action: Action) -> str:
        heading = GROUPS.get(str(action.metavar))
        return (f"\n  {heading}:\n" if heading else "") + super()._format_action(action)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return (
            text
            if text.startswith("example:")
            else "\n\n".join(fill(part, width, indent) for part in text.split("\n\n"))
        )


class _Version(Action):
    """Prints the version, which takes longer to look up than to print the help."""

    def __call__(self, parser: ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        parser.exit(0, f"gemm-ladder {version('gemm-ladder')}\n")


class Refusing(ArgumentParser):
    """Raises `InputError` for what another parser prints its usage, and ends the process."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def parser(of: type[ArgumentParser] = ArgumentParser) -> ArgumentParser:
    """Return the parser of the command line. Parsed arguments have the sub-command's function as
    `run`, and as `code` the exit code of an `InputError`.
    """
    whole = of(
        "ladder",
        description="Measure, compare and judge GEMM kernels. Begin with `ladder new mine --cpu`: "
        "it writes a kernel, and says how to try it.",
        epilog="`ladder COMMAND --help` explains a command, with an example.",
        formatter_class=_Paragraphs,
    )
    whole.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = whole.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for command, example in COMMANDS.items():
        text = (command.__doc__ or "").replace("\n    ", "\n").strip()
        subcommand = commands.add_parser(
            example.split()[1],
            help=" ".join(text.partition("\n\n")[0].split()).rstrip("."),
            description=text,
            epilog=f"example:\n  {example}",
            formatter_class=_Paragraphs,
        )
        code = 2 if command in (try_, check, gate) else 1  # which mean something else by 1
        subcommand.set_defaults(run=command(subcommand), code=code)
    return whole


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, by default that of the process. An `InputError` prints its message and
    exits with the `code` of the sub-command.
    """
    if sys.getfilesystemencoding() != "utf-8":
        # kernels and the program's own files are UTF-8; only a start sets the mode
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, sys.orig_argv)
    words = sys.argv[1:] if arguments is None else arguments
    # it may set the last folder apart, with options behind
    given = parser().parse_args([word for word in words if word != "--"])
    try:
        with clear_errors(given.code):
            check_folders()
            given.run(given)
            sys.stdout.flush()
    except (
        BrokenPipeError
    ):  # nobody reads on, as behind `| head`; what is left in the buffer is not missed either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
