"""The session in docs/first-kernel.md: a kernel from the template to an edit and a bug, as its author sees it.

`.venv/bin/python tests/support/author.py` runs the session and writes it to the page, and the tries
after an edit and a bug to the README.
"""

import difflib
import os
import re
import shlex
import shutil
import tempfile
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from datetime import UTC, datetime
from pathlib import Path

from ladder.core.places import HOME
from ladder.devices.detect import detect_cpu
from ladder.storage.dataset_layout import PUBLISHED
from planted import Project
from trying import edit, ladder

PAGE, FRONT = HOME / "docs" / "first-kernel.md", HOME / "README.md"
FILE = "kernels/cpu/mine.c"
LOOP = "    for (int k = 0; k < K && alpha != 0; ++k) {\n"
BY_FOURS = """    int k = alpha == 0 ? K : 0;
    for (; k + 4 <= K; k += 4) {  // C is read and written a quarter as often
      const T *a = &A[(size_t)i * lda + k], *b0 = &B[(size_t)k * ldb], *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb;
      for (int j = 0; j < N; ++j) c[j] += alpha * (a[0] * b0[j] + a[1] * b1[j] + a[2] * b2[j] + a[3] * b3[j]);
    }
    for (; k < K; ++k) {
"""
RIGHT, BUG = "for (; k < K; ++k)", "for (; k + 1 < K; ++k)"
EDITS = [(LOOP, BY_FOURS), (RIGHT, BUG), (BUG, RIGHT)]
CAMPAIGN = ("--cores", "all", "--config", "campaign=smoke", "devices=[cpu]", "kernels=[cpu/mine]")
TABLE = re.compile(r"^Gemm Ladder · (?:.*\n)*", re.MULTILINE)
"""How a run ends."""
BLOCK = re.compile(r"^```(console|diff)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A step of the session on the page: a command and what it prints, or an edit."""
DETAILS = re.compile(r"^(  (bits|intervals): .*|\(exit code .*)\n", re.MULTILINE)
"""What the README leaves out."""
MADE = re.compile(r"(?<=made the output below on ).*?\. (?=Your)")


def session(project: Project) -> list[str]:
    """The steps of a session in a copy of the project: commands with what they print, and the edits
    between them.
    """
    shutil.copytree(HOME / PUBLISHED, project.folder / PUBLISHED)
    path, log = project.folder / FILE, []

    def run(*arguments: str) -> None:
        done = ladder(project, *arguments)
        text = done.stdout.replace(f"{project.folder}/", "")
        for line in done.stderr.splitlines(keepends=True):
            if "in use by another run" not in line:
                text += line
        if done.returncode:
            text += f"(exit code {done.returncode})\n"
        log.append(f"$ ladder {' '.join(arguments)}\n{text}")

    run("new", "mine", "--cpu")
    run("try", FILE)
    for old, new in EDITS:
        before = path.read_text().splitlines(keepends=True)
        edit(path, old, new)
        after = path.read_text().splitlines(keepends=True)
        log.append("".join(difflib.unified_diff(before, after, FILE, FILE, n=1)))
        if new != RIGHT:
            run("try", FILE)
    (ending,) = TABLE.findall(project.ok(*CAMPAIGN[2:], cores=len(os.sched_getaffinity(0))))
    log.append(f"$ snakemake {shlex.join(CAMPAIGN)}\n[...]\n{ending}")
    return log


def page(text: str, steps: list[str]) -> str:
    """The page with a session's steps in place of those that it has."""
    left = iter(steps)
    text = BLOCK.sub(lambda block: f"```{block[1]}\n{next(left)}```", text)
    assert list(left) == []
    return MADE.sub(
        f"{datetime.now(UTC):%Y-%m-%d}, on two cores of an {detect_cpu().name} that others used "
        "too. ",
        text,
    )


def main() -> None:
    """Run the session, and write the page."""
    ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        steps = session(Project(Path(folder) / "project"))
    PAGE.write_text(page(PAGE.read_text(), steps))
    two = DETAILS.sub("", steps[3] + steps[5])
    FRONT.write_text(BLOCK.sub(lambda _: f"```console\n{two}```", FRONT.read_text()))


if __name__ == "__main__":
    main()
