"""Fill the marked places of README.md and docs/ from the published data, in place.

.venv/bin/python -m book             all pages, docs/data.md, docs/ladder/results.csv,
                                     docs/datasets.csv, docs/gpus.csv, two pictures, and
                                     results/published/claims.json
.venv/bin/python -m book PAGE...     only these pages
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from ladder.claims import judge
from ladder.core.errors import InputError, clear_errors
from ladder.core.files import write_whole
from ladder.core.places import HOME
from ladder.figures import main_loops, precisions
from ladder.storage.dataset_layout import JUDGED, PUBLISHED

from book import data_dictionary, loops, pages, rungs, runs
from book.data import Story


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill the pages. Raises `InputError` for a page without generated parts, and for a marker that
    names nothing.
    """
    parser = ArgumentParser(
        "python -m book", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "page",
        nargs="*",
        type=Path,
        metavar="PAGE",
        help="a page to fill, such as README.md (default: all)",
    )
    asked = [path.resolve() for path in parser.parse_args(arguments).page]
    story = Story(HOME)
    if unknown := sorted(set(asked) - set(pages.DOCUMENTS)):
        raise InputError(
            f"got {unknown[0]}; expected a page with generated parts, such as {pages.DOCUMENTS[0]}"
        )
    if not asked:
        write_whole(HOME / "docs" / "data.md", data_dictionary.page().encode())
        for path, text in ({rungs.TABLE: rungs.table(story)} | runs.files(story)).items():
            write_whole(path, text.encode())
        judge.write(judge.claimed(story.entries), HOME / PUBLISHED / JUDGED)
        drawn = main_loops.write(loops.of_main_line(story)), precisions.write(story.precisions())
        print(*drawn, sep="\n", flush=True)
    for path in asked or pages.DOCUMENTS:
        write_whole(path, pages.fill(path.read_text(), story, str(path.relative_to(HOME))).encode())
        print(path, flush=True)


if __name__ == "__main__":
    with clear_errors():
        main()
