"""A kernel from the template to an edit and a bug, as somebody sees it who writes it: the page docs/author.md is made from such a session.

`.venv/bin/python studies/author.py` writes the page.
"""

import difflib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from ladder.environment import detect_cpu
from ladder.study import command_line
from planted import ROOT, Project

PAGE = ROOT / "docs" / "author.md"
FILE = "kernels/cpu/mine.c"
LOOP = "    for (int k = 0; k < K; ++k) {\n"
BY_FOURS = """    int k = 0;
    for (; k + 4 <= K; k += 4) {  // C is read and written a quarter as often
      const T *a = &A[(size_t)i * lda + k], *b = &B[(size_t)k * ldb];
      for (int j = 0; j < N; ++j) c[j] += alpha * (a[0] * b[j] + a[1] * b[ldb + j] + a[2] * b[2 * ldb + j] + a[3] * b[3 * ldb + j]);
    }
    for (; k < K; ++k) {
"""
RIGHT, BUG = "for (; k < K; ++k)", "for (; k + 1 < K; ++k)"
EDITS = [(LOOP, BY_FOURS), (RIGHT, BUG)]
CAMPAIGN = ("--cores", "all", "--config", "campaign=smoke", "devices=[cpu]", "kernels=[cpu/mine]")
TABLE = re.compile(r"^.*, M=.*\n(?:.+\n)*\n?(?:(?!Complete log).*\n)*", re.MULTILINE)
"""How a run ends, without Snakemake's own last lines."""
HEAD = """# Writing a kernel

    .venv/bin/ladder new NAME [--cpu]           # a kernel to begin with, in kernels/cuda/ or kernels/cpu/
    .venv/bin/ladder try FILE                   # right or wrong, how fast, and what has changed since the last try
    .venv/bin/ladder try FILE --watch           # the same at every save; the worker stays
    .venv/bin/ladder try FILE --problem 64x4096x4096 --set BM=64,128 --set compiler=nvrtc --counters

`ladder try` compiles the file, runs it through the gauntlet and on whole numbers of the problem's size, and times it beside the
reference, the best rung of this device's own or the published results, and the last right try of the same file, all in the same rounds.
It uses a campaign's own modules, touches no campaign's results, and keeps what it needs in `results/try/`, with a line a try in
`history.jsonl`. It does not draw. Intervals are within-run: what a campaign confirms in fresh processes is known better.

- Wrong: the first wrong element with its problem, what it is and should be, and, where the numbers fit one, a guess at the mistake: a
  leading dimension, alpha or beta, an edge, a part of K left out, nothing written, C read although beta is 0, a race: also where it was
  wrong in one launch only. After a configuration that does not end the others are not tried.
- Right: the rate, its ratio to the reference and to the best rung, in float32 its share of the measured peak (that of other
  types is not measured); of a CUDA kernel registers, spills, shared memory, occupancy and what limits it, bank conflicts by the model;
  with `--counters` the top reasons for stalls, where Nsight Compute can count them. Then faster, slower or not
  distinguishable, with the interval, and what the compiler changed. A line says so where other processes used the CPU, or computed
  on the GPU, while it was timed.
- The problem is a square of 4096 on a GPU and of 256 on a CPU unless `--size` or `--problem` says otherwise; `--set` gives values of
  parameters in place of the header's sweep, and of a CUDA kernel's [`compiler`, `maxrregcount` and `dlcm`](compilers.md).
- Exit code 0: right; 1: wrong, in any configuration; 2: it could not be tried. Without a GPU a CUDA kernel is compiled and not run.

When it is right and fast, `make` measures it with all others. The session below ends with the smallest campaign, of this kernel alone;
`make` ends with the same of the default one.

## A session

"""
SAVES = "results/published/studies/saves.cpu-intel-xeon-processor.json"
TAIL = """
How soon a save is answered is one of the questions under [How sure we are](../README.md#how-sure-we-are).
On the CPU it took {again_s:.1f} s, with `--watch` {watch_s:.1f} s<!-- from: {source} -->; before these tools
users new to the project waited 8 to 36 s<!-- from: a trial with new users --> for a campaign to answer.
"""


def tail() -> str:
    """How the page ends."""
    return TAIL.format(**json.loads((ROOT / SAVES).read_text())["measured"], source=SAVES)


def session(project: Project) -> str:
    """The log of a session in a copy of the project: commands, what they print, and the edits between them."""
    for published in (ROOT / "results" / "published").glob("cpu-*"):
        shutil.copytree(published, project.folder / "results" / "published" / published.name)
    path, log = project.folder / FILE, []

    def run(*arguments: str) -> None:
        done = subprocess.run(
            [project.python, "-m", "ladder", *arguments], cwd=project.folder, capture_output=True, text=True, check=False
        )
        said = done.stdout.replace(f"{project.folder}/", "") + "".join(
            line for line in done.stderr.splitlines(keepends=True) if "in use by another run" not in line
        )
        log.append(f"$ ladder {' '.join(arguments)}\n{said}" + (f"(exit code {done.returncode})\n" if done.returncode else ""))

    def edit(old: str, new: str) -> None:
        before = path.read_text()
        assert old in before
        path.write_text(before.replace(old, new))
        one, other = (text.splitlines(keepends=True) for text in (before, path.read_text()))
        log.append("".join(difflib.unified_diff(one, other, FILE, FILE, n=1)))

    run("new", "mine", "--cpu")
    run("try", FILE)
    for old, new in EDITS:
        edit(old, new)
        run("try", FILE)
    edit(BUG, RIGHT)
    (ending,) = TABLE.findall(project.ok(*CAMPAIGN[2:], cores=len(os.sched_getaffinity(0))))
    log.append(f"$ snakemake {shlex.join(CAMPAIGN)}\n[...]\n{ending}")
    return "\n".join(log)


def page(log: str) -> str:
    """The page with a session's log."""
    made = f"`studies/author.py` made this on {datetime.now(UTC):%Y-%m-%d}, on two cores of an {detect_cpu().name} that others used too.\n"
    return f"{HEAD}{made}\n```\n{log}```\n{tail()}"


def without_numbers(text: str) -> str:
    """What of a page or log does not depend on the machine and the moment."""
    text = re.sub(r"faster|slower|not distinguishable", "so", re.sub(r"on [^\n]*(Processor|CPU|EPYC|Xeon)[^\n]*", "on it", text))
    text = re.sub(r"(?m)^  timed while .*\n", "", text)
    text = re.sub(r"(?m)^.*, M=", "It, M=", re.sub(r"(?m)  (?:multimodal|drifting|, )+$", "", text))
    text = re.sub(r"(?m)(?:^  \S+ .*%.*\n){2,}", lambda rows: "".join(sorted(rows[0].splitlines(keepends=True))), text)  # by rate
    return re.sub(r"cpu-[\w-]+", "cpu", re.sub(r" +", " ", re.sub(r"\d[\d.e+-]*", "0", text)))


def main() -> None:
    """Run the session, and write the page."""
    command_line(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        PAGE.write_text(page(session(Project(Path(folder) / "project"))))


if __name__ == "__main__":
    main()
