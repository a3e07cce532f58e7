"""The commands and code blocks of all pages, and how each is run.

`.venv/bin/python tests/support/documented.py` runs those that need nothing, and prints the list with their exit codes. A command or
block that no row of the tables below names fails `tests/unit/test_documented.py`.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import synthetic
from ladder.core.files import ROOT
from planted import Project

PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text()
    for path in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "config" / "README.md",
        *sorted(ROOT.glob("docs/**/*.md")),
    )
}
FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
PROGRAM = re.compile(
    r"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/|\./|\.ci/run\b"
    r"|(?:make|snakemake|ladder|pytest|git|uv|podman|docker|apptainer|apt-get|kubectl|nvidia-smi) )"
)
"""How a command begins. Within a sentence, the name of a program alone is only a word."""
OF_COMMANDS = ("sh", "console", "text")
"""The languages of blocks whose lines are commands. A block that begins with `#!` is a script."""


@dataclass(frozen=True)
class Block:
    """A code block of a page, other than of commands."""

    page: str
    language: str
    text: str


def commands() -> dict[str, list[str]]:
    """Return the pages of every command. `.venv/bin/`, prompts and comments are left out."""
    known: dict[str, list[str]] = {}
    for page, text in PAGES.items():
        for line in _commands(page, text):
            command = re.sub(
                r"^((?:[A-Z_]+=\S+ )*)\.venv/bin/",
                r"\1",
                re.sub(r" +# .*", "", line.removeprefix("$ ")).strip(),
            )
            pages = known.setdefault(command, [])
            if page not in pages:
                pages.append(page)
    return known


def _commands(page: str, text: str) -> Iterator[str]:
    for _, language, body in FENCE.findall(text):
        lines = body.replace("\\\n", "").splitlines()
        if language in OF_COMMANDS and not body.startswith("#!"):
            yield from (
                line
                for line in lines
                if language == "sh" or PROGRAM.match(line.removeprefix("$ ") + " ")
            )
    prose = FENCE.sub("", text)
    for block in INDENTED.findall(prose):
        lines = [line.strip() for line in block.splitlines()]
        # chapters have arithmetic
        if not page.startswith("docs/ladder/") or PROGRAM.match(lines[0]):
            yield from lines
    for code in re.findall(r"`([^`\n]+)`", INDENTED.sub("\n", prose)):
        if PROGRAM.match(code) or code == "make":
            yield code


def blocks() -> list[Block]:
    """Return the code blocks of all pages, other than of commands."""
    kept = []
    for page, text in PAGES.items():
        for _, language, body in FENCE.findall(text):
            if language not in OF_COMMANDS or body.startswith("#!"):
                kept.append(Block(page, "script" if body.startswith("#!") else language, body))
    return kept


@dataclass(frozen=True)
class Way:
    """How a command or block is run: `where` is `.ci/run`, FILE::TEST, or `nowhere`."""

    where: str
    needs: str = ""
    """What `.ci/run` or a quick test lacks; why nothing runs it; or what it stands for."""
    given: tuple[tuple[str, str], ...] = ()
    """Values of placeholders."""
    after: str = ""
    """The command that must run before."""
    answer: str = ""
    """What it prints if it came to an answer about this machine, which its exit code is then: each
    will do.
    """
    planned: bool = False
    """Whether it is planned with simulated GPUs: it would measure a GPU."""


CI, NOWHERE = ".ci/run", "nowhere"
HERE, ON_GPU = (
    f"tests/{folder}/test_documented.py::test_a_command_runs" for folder in ("workflow", "gpu")
)
BLOCKS_HERE = "tests/workflow/test_documented.py::test_a_block_"
HELP = "tests/unit/test_command.py::test_an_example_is_shown_and_understood"
STUDY = "tests/unit/test_studies.py::test_its_help_is_its_text_and_measures_nothing"
CONTAINER = "tests/container/test_container.py::"
SLURM = "tests/cluster/test_slurm.py::test_the_commands_on_the_page_work"
SMOKE = "snakemake --cores 1 --config campaign=smoke"
NEW, NEW_CUDA = "ladder new mine --cpu", "ladder new mine"
MINE = (
    ("NAME [--cpu]", "own --cpu"),
    ("NAME --ptx", "own_ptx --ptx"),
    ("NAME", "own"),
    ("FILE", "kernels/cpu/mine.c"),
)
NIGHTS = ("mon", "tue", "wed", "thu")

WAYS: list[tuple[Way, list[str]]] = [
    (
        Way(HERE),
        [
            SMOKE,
            NEW,
            NEW_CUDA,
            "uv cache clean",
            "snakemake --cores 1 --configfile my/own.yaml",
            "ladder export 11_split_k",
            "ladder export 11_split_k BM=64 SLICES=4",
            "ladder export 02_naive_coalesced --type float64",
            "git archive *",
            "ladder try kernels/cpu/04_vectorized_parallel.c *",
        ],
    ),
    (
        Way(HERE, answer="\nClaims: "),
        ["snakemake --cores 1 reproduce", "snakemake --cores 1 reproduce --config *"],
    ),
    (Way(HERE, after=SMOKE), ["snakemake --cores 1 --config campaign=smoke --report report.html"]),
    (
        Way(HERE, after=NEW),
        [
            "snakemake --cores all --config campaign=smoke 'devices=[cpu]' 'kernels=[cpu/mine]'",
            "snakemake --cores 1 --config 'kernels=[cpu/mine]'",
            "ladder try kernels/cpu/mine.c",
        ],
    ),
    (
        Way(HERE, after=NEW, given=MINE),
        [
            "ladder try FILE",
            "ladder new NAME [--cpu]",
            "ladder new NAME --ptx",
            "ladder new NAME --tensor",
        ],
    ),
    (
        Way(HERE, "four nights, here made-up", given=((" A B", " mon tue"),)),
        ["ladder compare A B", "ladder compare mon tue *"],
    ),
    (
        Way(HERE, "GPUs to measure", planned=True),
        [
            "snakemake --cores all --config campaign=compilers",
            "snakemake --cores all --config campaign=laptop",
            "snakemake --cores all --config campaign=beyond-cublas",
            "snakemake --cores all --configfile config/languages.yaml",
            "snakemake --cores 8 --resources gpu=4",
            "CUDA_VISIBLE_DEVICES=1 snakemake --cores 1",
            "snakemake --cores all",
        ],
    ),
    (Way(NOWHERE, "an idle machine"), ["make test-machine"]),
    (
        Way(CI),
        [
            "make",
            "make setup",
            "make lint",
            "make test",
            "make test-*",
            "make check-published",
            "make setup-cutlass",
            "make setup-triton",
            "make setup-cutlass setup-triton",
            "snakemake --lint",
            "snakemake --cores 1",
            "snakemake --cores 1 --config 'devices=[cpu]'",
        ],
    ),
    (Way(CI, "by `make check-published`"), ["make redraw"]),
    (Way(CI, "by `make redraw`, on all cores"), ["snakemake --cores 1 published"]),
    (Way(CI, "which installs them, as root"), ["apt-get install *"]),
    (Way(CI, "itself"), [".ci/run"]),
    # which another test ends
    (
        Way(ON_GPU, "a GPU", given=((" --watch", ""),)),
        ["ladder try kernels/cuda/90_mine.cu --watch"],
    ),
    (
        Way(ON_GPU, "a GPU", after=NEW_CUDA),
        [
            "ladder try kernels/cuda/mine.cu",
            "snakemake --cores all --config campaign=smoke 'devices=[cuda]' *",
        ],
    ),
    (
        Way(ON_GPU, "a GPU", given=(("FILE", "kernels/cuda/03_shared_tile.cu"),)),
        ["ladder try FILE --problem 64x4096x4096 *"],
    ),
    (Way(ON_GPU, "a GPU"), ["ladder try kernels/cuda/*"]),
    (Way(HELP, "named only"), ["ladder try", "ladder new", "ladder compare", "ladder export"]),
    (Way(CI, "named only"), ["snakemake published", "snakemake reproduce"]),
    (
        Way("tests/published/test_pages.py::test_a_page_is_filled_from_the_data", "published data"),
        ["python -m book"],
    ),
    (
        Way("tests/published/test_book.py::test_one_page_can_be_filled_alone", "made-up data"),
        ["python -m book PAGE"],
    ),
    (
        Way(
            "tests/published/test_data.py::test_the_tables_of_repeats_are_current", "published data"
        ),
        ["ladder repeat"],
    ),
    (
        Way(
            "tests/workflow/test_command.py::test_every_example_runs",
            "a measured GPU, here a made-up one",
        ),
        ["ladder publish results/*"],
    ),
    (
        Way("tests/unit/test_publish.py::test_all_is_drawn_and_summed_again", "made-up data"),
        ["ladder publish"],
    ),
    (
        Way("tests/workflow/test_trial_processes.py::test_watching_with_a_real_worker", "an end"),
        ["ladder try FILE --watch"],
    ),
    (
        Way(
            "tests/workflow/test_gpus.py::test_one_gpu_at_a_time_unless_more_are_asked_for_and_what_is_counted_runs_on_it",
            "a GPU and Nsight Compute, here simulated",
        ),
        ["snakemake --cores 1 counters"],
    ),
    (Way(STUDY, "minutes to hours, most of them a GPU"), ["python studies/*", "make bench"]),
    (
        Way(
            "tests/unit/test_everyday.py::test_cleaning_leaves_what_is_published_and_what_is_installed"
        ),
        ["make clean"],
    ),
    (
        Way(
            "tests/unit/test_everyday.py::test_a_python_that_suits_is_found_beside_one_that_does_not",
            "that Python",
        ),
        ["make PYTHON=*"],
    ),
    (
        Way(
            "tests/unit/test_everyday.py::test_the_script_of_a_night_ends_with_the_first_code_that_is_not_0",
            "a night",
        ),
        ["./night.sh; *", "0 2 * * *", "MAILTO=*"],
    ),
    (
        Way(f"{CONTAINER}test_every_command_of_the_page_runs", "root and Podman"),
        [
            "make image",
            "mkdir -p results",
            "install -d -m 777 theirs",
            "echo '{campaign: mine, *",
            "podman run --rm --user *",
            "podman run --rm --entrypoint=*",
            "podman image inspect *",
            "podman run * --dry-run",
        ],
    ),
    (
        Way(
            f"{CONTAINER}test_a_strangers_kernel_runs_as_the_page_on_trust_says", "root and Podman"
        ),
        ["install -d -m 777 judged", "podman run * 'kernels=[cpu/90_stranger]'"],
    ),
    (
        Way(f"{CONTAINER}test_snakemake_runs_its_jobs_in_the_image", "root, Podman and Apptainer"),
        ["podman save *", "apptainer build *", "snakemake --cores 1 --sdm apptainer"],
    ),
    (
        Way(f"{CONTAINER}test_two_builds_hold_the_same", "half an hour, root and Podman"),
        ["IMAGE_FACTS=*"],
    ),
    (
        Way(f"{CONTAINER}test_a_gpu_comes_in_by_its_cdi_name", "root, Podman and a GPU"),
        ["podman run --rm --userns=keep-id *"],
    ),
    (
        Way(SLURM, "root and Slurm"),
        [
            "snakemake --profile profiles/slurm --configfile my.yaml",
            "snakemake --profile profiles/slurm --configfile my.yaml --dry-run",
            "snakemake --profile profiles/cluster-generic *",
            "sinfo *",
            "squeue *",
            "scontrol *",
        ],
    ),
    (
        Way(
            "tests/workflow/test_partitions.py::test_a_profile_plans_every_job",
            "the plugin of HTCondor, which `make test-slurm` installs",
        ),
        ["snakemake --profile profiles/htcondor *"],
    ),
    (
        Way(
            "tests/workflow/test_partitions.py::test_the_pod_of_kubernetes_runs_a_command_that_exists",
            "Kubernetes",
        ),
        ["kubectl *"],
    ),
    (
        Way(NOWHERE, "GPUs; the rest of the GPU's tests"),
        ["python -m pytest -m gpu", "pytest -m gpu *", "pytest -m gpu", "nvidia-smi *"],
    ),
    (Way(NOWHERE, "a file of your own"), ['python -m pytest -m "" FILE']),
    (Way(NOWHERE, "the network; `.ci/run` begins with a clean clone"), ["git clone *"]),
    (Way(NOWHERE, "the registry, and changes the lock"), ["make lock"]),
    (
        Way(NOWHERE, "the network; `make test-slurm` installs the same lock beside `.venv`"),
        ["make setup-cluster"],
    ),
    (
        Way(NOWHERE, "Docker, Apptainer or a registry of your own"),
        [
            "docker *",
            "apptainer run *",
            "make image IMAGE_ARGS=*",
            "podman build",
            "snakemake --cores 1 --sdm apptainer --apptainer-args=--nv",
        ],
    ),
    (Way(NOWHERE, "Slurm with accounting"), ["snakemake * --slurm-status-command sacct"]),
    (Way(NOWHERE, "a formula"), ["|C - AB| *"]),
]
"""The first row with a command, or with its beginning and ` *`, says how it is run."""

BLOCKS: list[tuple[Way, str, list[str]]] = [
    (
        Way(
            "tests/emulated/test_emulated.py::test_the_kernel_of_the_readme_is_right_in_the_gauntlet",
            "clang and PoCL",
        ),
        "README.md",
        ["c++"],
    ),
    (
        Way(
            "tests/workflow/test_bring_your_kernel.py::test_every_stage_gets_the_message_of_the_page"
        ),
        "docs/bring-your-kernel.md",
        ["cuda", "diff"],
    ),
    (
        Way("tests/workflow/test_author.py::test_the_session_on_the_page_comes_out_as_it_says"),
        "docs/first-kernel.md",
        ["diff"],
    ),
    (
        Way(
            "tests/published/test_pages.py::test_the_example_of_the_data_dictionary_prints_each_rung_once",
            "published data",
        ),
        "docs/data.md",
        ["python"],
    ),
    (
        Way(
            "tests/unit/test_everyday.py::test_the_script_of_a_night_ends_with_the_first_code_that_is_not_0"
        ),
        "docs/nightly.md",
        ["script"],
    ),
    (
        Way("tests/unit/test_export.py::test_the_code_of_the_page_launches", "a recording driver"),
        "docs/export.md",
        ["cpp", "python"],
    ),
    (Way(f"{BLOCKS_HERE}of_a_campaign_is_planned"), "docs/slurm.md", ["yaml"]),
    (Way(f"{BLOCKS_HERE}of_a_campaign_is_planned"), "docs/compilers.md", ["yaml"]),
    (
        Way(
            "tests/unit/test_documented.py::test_a_submit_command_has_the_keys_of_its_profile",
            "those engines; Slurm's is tested",
        ),
        "docs/clusters.md",
        ["yaml"],
    ),
    (Way(NOWHERE, "an excerpt of a kernel"), "docs/ladder/*", ["c++"]),
    (Way(NOWHERE, "a picture"), "docs/architecture.md", [""]),
]
"""How the blocks of a page and language are run."""


def _named(name: str, pattern: str) -> bool:
    """Return whether a pattern, in which `*` stands for anything, names this."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def way(command: str) -> Way | None:
    """Return how a command is run."""
    return next(
        (it for it, patterns in WAYS if any(_named(command, pattern) for pattern in patterns)), None
    )


def way_of(block: Block) -> Way | None:
    """Return how a block is run."""
    return next(
        (
            it
            for it, page, languages in BLOCKS
            if _named(block.page, page) and block.language in languages
        ),
        None,
    )


def run_by(where: str) -> list[str]:
    """Return the commands that a test runs."""
    return [command for command in commands() if (it := way(command)) and it.where == where]


class Stranger(Project):
    """A copy of all that a clone has, with the commands of its environment. Each command runs once,
    whoever asks for it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in ("docs", "book", "studies", "tests", "results/published"):
            shutil.copytree(
                ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml", ".gitignore"):
            shutil.copy(ROOT / name, folder)
        for name in ("ladder", "snakemake", "uv"):
            start = (
                f"{self.python} -m {name}" if name != "uv" else str(ROOT / ".venv" / "bin" / "uv")
            )
            self.write(f".venv/bin/{name}", f'#!/bin/sh\nexec {start} "$@"\n').chmod(0o755)
        self.write(
            "my/own.yaml",
            '{campaign: mine, devices: [cpu], kernels: ["cpu/02*"], problems: {cpu: [{square: '
            "64}]}}\n",
        )
        for seed, night in enumerate(NIGHTS):
            synthetic.write(
                folder / night,
                seed,
                "nvidia-made-up",
                problems=[(256, 256, 256)],
                kernels=("03_shared_tile", "cublas"),
            )
        identity = ("-c", "user.name=Stranger", "-c", "user.email=stranger@example.org")
        for command in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "A clone")):
            subprocess.run(["git", *command], cwd=folder, check=True)
        self.codes: dict[str, int] = {}
        self.printed: dict[str, str] = {}

    def run(self, command: str) -> int:
        """Run a documented command; returns its exit code."""
        if command not in self.codes:
            way_ = way(command)
            assert way_, command
            if way_.after:
                self.run(way_.after)
            words = command + (" --dry-run" if way_.planned else "")
            for name, value in way_.given:
                words = words.replace(name, value)
            environment = os.environ | {
                "PATH": f"{self.folder}/.venv/bin:{os.environ['PATH']}",
                "NO_COLOR": "1",
            }
            environment |= {"UV_CACHE_DIR": f"{self.folder}/uv"}
            if way_.planned:
                uuids = [f"GPU-{number}" for number in range(4)]
                gpus = self.simulate(
                    name="NVIDIA H200",
                    uuids=uuids,
                    driver="1",
                    compiler="1",
                    memory_bytes=140 << 30,
                    others=[0],
                )
                environment |= gpus
            done = subprocess.run(
                ["bash", "-c", words],
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                check=False,
            )
            self.codes[command], self.printed[command] = done.returncode, done.stdout
        return self.codes[command]


def main() -> None:
    """Print each command with where it runs, what it needs and, if it runs here, its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        stranger = Stranger(Path(folder) / "project")
        for command in commands():
            it = way(command)
            assert it, command
            code = stranger.run(command) if it.where == HERE else "-"
            print(f"{code}\t{it.where}\t{it.needs}\t{command}", flush=True)
    for block in blocks():
        it = way_of(block)
        assert it, block
        print(
            f"-\t{it.where}\t{it.needs}\t{block.page}: {block.language or 'text'}: "
            f"{block.text.splitlines()[0]}"
        )


if __name__ == "__main__":
    main()
