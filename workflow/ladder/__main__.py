"""The command `ladder`: what is asked of the project beside a campaign's run, which is Snakemake's."""

import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Sequence
from pathlib import Path

from ladder.jobs import clear_errors

Run = Callable[[Namespace], None]


def publish(parser: ArgumentParser) -> Run:
    """Make a dataset of this machine a published one; without one, draw all published ones again and write their checksums anew.

    What was measured is copied to results/published/NAME, with the pictures that a page shows and SHA256SUMS, the checksums of these files
    and of all that is drawn from them; other files there stay. To draw all again is due when a figure or a kernel's model has changed.
    """
    parser.add_argument("dataset", nargs="?", type=Path, metavar="DATASET", help="a folder results/CAMPAIGN/DEVICE")
    parser.add_argument(
        "name", nargs="?", default="", metavar="NAME", help="what it is published as; the device's slug if not given"
    )

    def run(given: Namespace) -> None:
        from ladder import publish
        from ladder.environment import ROOT

        published = ROOT / "results" / "published"
        if given.dataset:
            print(f"published {publish.publish(given.dataset, published, given.name)}; now commit it")
        for folder in [] if given.dataset else publish.redraw(published):
            print(f"drew {folder} again")

    return run


def story(parser: ArgumentParser) -> Run:
    """Fill in what README.md and the pages in docs/ take from the published data, in place, and write docs/data.md.

    First what these data say to the claims of config/claims.yaml is written to results/published/claims.json.
    """

    def run(given: Namespace) -> None:
        from ladder import claims, dictionary, story
        from ladder.environment import ROOT
        from ladder.jobs import write_whole

        write_whole(ROOT / "docs" / "data.md", dictionary.page().encode())
        claims.write_published(ROOT)
        known = story.Story(ROOT)
        for path in story.DOCUMENTS:
            path.write_text(story.fill(path.read_text(), known, path.name))

    return run


def repeat(parser: ArgumentParser) -> Run:
    """Say how far published results repeat, on one machine and on others, where a model of device has several published runs.

    Writes results/published/repeat-DEVICE.csv, limits for every problem, and .json, what was found of the intervals that are stated.
    """

    def run(given: Namespace) -> None:
        from ladder import repeat
        from ladder.environment import ROOT

        written = repeat.write(ROOT / "results" / "published")
        print("\n".join(map(str, written)) or "no model of device has two published runs with a confirmation")

    return run


def compare(parser: ArgumentParser) -> Run:
    """Say what is faster and slower in dataset B than in A: of two commits, machines, drivers or days.

    First what differs between their environments, then every kernel and problem of which the times differ by more than processes and,
    where `ladder repeat` knows them, runs of the same code do. A and B are datasets, or folders with datasets of the same names.

    Exit codes: 0, or 1 where there is nothing to compare, 2 for arguments that are none, and 3 where --fail-if-slower finds something.
    A change as large as the given one is found in half of the runs: give half of what must not be missed.
    """
    parser.add_argument("one", type=Path, metavar="A", help="a folder results/CAMPAIGN/DEVICE or results/CAMPAIGN")
    parser.add_argument("other", type=Path, metavar="B", help="another")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every row, not only what changed, as JSON")
    parser.add_argument("--figure", type=Path, metavar="STEM", help="draw STEM.svg and .png")
    parser.add_argument(
        "--fail-if-slower",
        type=_percent,
        metavar="PERCENT",
        help="exit with code 3 where the time of something is longer by so much, such as 2%%, and surely is longer at all",
    )

    def run(given: Namespace) -> None:
        from ladder import compare
        from ladder.environment import ROOT

        found = compare.compare(given.one, given.other, ROOT / "results" / "published")
        print("\n\n".join(comparison.text() for comparison in found))
        if given.json:
            compare.write_json(found, given.json)
        if given.figure:
            compare.draw(found, given.figure)
        if given.fail_if_slower is not None and max(len(it.slower(given.fail_if_slower)) for it in found):
            sys.exit(compare.SLOWER)

    return run


def _percent(text: str) -> float:
    """The share that `2%` is."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text)
    if not found:
        raise ArgumentTypeError(f"got {text!r}; expected per cent, such as 2%")
    return float(found[1]) / 100


COMMANDS: dict[Callable[[ArgumentParser], Run], str] = {
    publish: "ladder publish results/default/nvidia-h200",
    story: "ladder story",
    repeat: "ladder repeat",
    compare: "ladder compare results/published/nvidia-h200 results/default/nvidia-h200 --fail-if-slower 2%",
}
"""The sub-commands, each with an example: functions that add their arguments to a parser and return what runs them.

They import what they need when they run, so that `ladder --help` answers at once.
"""


def parser() -> ArgumentParser:
    """The parser of the command line; what it returns has the sub-command's function as `run`."""
    whole = ArgumentParser("ladder", description="Gemm Ladder, beside what Snakemake runs: README.md.")
    commands = whole.add_subparsers(required=True, metavar="COMMAND")
    for command, example in COMMANDS.items():
        text = (command.__doc__ or "").replace("\n    ", "\n").strip()
        one = commands.add_parser(
            command.__name__,
            help=text.partition("\n")[0].rstrip("."),
            description=text,
            epilog=f"example:\n  {example}",
            formatter_class=RawDescriptionHelpFormatter,
        )
        one.set_defaults(run=command(one))
    return whole


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, by default that of the process; an `InputError` is its message and exit code 1."""
    given = parser().parse_args(arguments)
    with clear_errors():
        given.run(given)


if __name__ == "__main__":
    main()
