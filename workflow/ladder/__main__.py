"""The command `ladder`: what is asked of the project beside a campaign's run, which is Snakemake's."""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
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
    """Fill in what README.md and the pages in docs/ take from the published data, in place, and write docs/data.md."""

    def run(given: Namespace) -> None:
        from ladder import dictionary, story
        from ladder.environment import ROOT
        from ladder.jobs import write_whole

        write_whole(ROOT / "docs" / "data.md", dictionary.page().encode())
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


def archive(parser: ArgumentParser) -> Run:
    """Put code, published data, what is drawn from them and checksums into one zip, an RO-Crate, to be handed to a repository of data.

    From a clean checkout, after `snakemake published`; docs/artifact.md says what is in it.
    """
    parser.add_argument("zip", type=Path, metavar="ZIP", help="the file to write")

    def run(given: Namespace) -> None:
        from ladder import archive
        from ladder.environment import ROOT

        target = archive.write(ROOT, given.zip)
        print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")

    return run


COMMANDS: dict[Callable[[ArgumentParser], Run], str] = {
    publish: "ladder publish results/default/nvidia-h200",
    story: "ladder story",
    repeat: "ladder repeat",
    archive: "ladder archive gemm-ladder.zip",
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
