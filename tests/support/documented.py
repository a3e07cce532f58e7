"""The commands and code blocks of all pages, and how each is run. One that no row of the tables
below names fails `tests/unit/test_documented.py`.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import synthetic
from ladder.core.places import HOME
from planted import Project

FILES = sorted(path for at in ("", "config/", "docs/**/") for path in HOME.glob(f"{at}*.md"))
PAGES = {
    path.relative_to(HOME).as_posix(): path.read_text()
    for path in FILES
    if path.name != "AGENTS.md"  # whose commands have names of a reader's own
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

    @property
    def name(self) -> str:
        """What a row of the table calls it."""
        return f"{self.page}: {self.language or 'plain'}"


def commands() -> list[str]:
    """Return every command, once. `.venv/bin/`, prompts and comments are left out."""
    known = []
    for page, text in PAGES.items():
        for line in _commands(page, text):
            command = re.sub(r" +# .*", "", line.removeprefix("$ ")).strip()
            known.append(re.sub(r"^((?:[A-Z_]+=\S+ )*)\.venv/bin/", r"\1", command))
    return list(dict.fromkeys(known))


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
    """How a command is run in a clone."""

    where: str
    """FILE::TEST"""
    given: tuple[tuple[str, str], ...] = ()
    """Values of placeholders."""
    after: str = ""
    """The command that must run before."""
    answer: str = ""
    """What it prints if it came to an answer about this machine, which its exit code is then: each
    will do.
    """
    planned: bool = False
    """Whether it is planned with simulated GPUs: it would measure a GPU, or what another command
    measures.
    """


HERE, ON_GPU = (
    f"tests/{folder}/test_documented.py::test_a_command_runs" for folder in ("workflow", "gpu")
)
SMOKE = "snakemake --cores 1 --config campaign=smoke"
REPRODUCE = "snakemake --cores 1 reproduce"
RECEIPT = "ladder receipt results/smoke/cpu-* 02_reordered_ikj > receipt.json"
NEW, NEW_CUDA = "ladder new mine --cpu", "ladder new mine"
MINE = (("NAME [--cpu]", "own --cpu"), ("NAME --ptx", "own_ptx --ptx"), ("NAME", "own"))
NIGHTS = ("mon", "tue", "wed", "thu")

IN_A_CLONE: list[tuple[Way, list[str]]] = [
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
            "ladder try kernels/cpu/*.c --size 64 --json verdicts.json",
            "ladder try kernels/cpu/02_reordered_ikj.c *",
        ],
    ),
    (Way(HERE, answer="\nClaims: "), [REPRODUCE]),
    (Way(HERE, after=SMOKE), [f"{SMOKE} --report report.html"]),
    (Way(HERE, after=SMOKE), [RECEIPT]),
    (Way(HERE, after=RECEIPT, answer=" reproduced\n"), ["ladder check receipt.json --trust"]),
    (
        Way(HERE, given=(("FILE", "kernels/cpu/02_reordered_ikj.c"),)),
        ["ladder try FILE --problems config/smoke.yaml *"],
    ),
    (Way(HERE, after=NEW, planned=True), ["snakemake --cores 1 --config 'kernels=[cpu/mine]'"]),
    (
        Way(HERE, given=MINE),
        ["ladder new NAME [--cpu]", "ladder new NAME --ptx", "ladder new NAME --tensor"],
    ),
    (Way(HERE, given=((" A B", " mon tue"),)), ["ladder compare A B", "ladder compare mon tue *"]),
    (
        Way(HERE, planned=True),
        [
            f"{REPRODUCE} --config *",
            "snakemake --cores all --config campaign=compilers",
            "snakemake --cores all --config campaign=laptop",
            "snakemake --cores all --config campaign=beyond-cublas",
            "snakemake --cores all --config campaign=bits",
            "snakemake --cores all --configfile config/languages.yaml",
            "snakemake --cores 8 --resources gpu=4",
            "CUDA_VISIBLE_DEVICES=1 snakemake --cores 1",
            "snakemake --cores all",
        ],
    ),
    # which another test ends
    (Way(ON_GPU, given=((" --watch", ""),)), ["ladder try kernels/cuda/90_mine.cu --watch"]),
    (
        Way(ON_GPU, after=NEW_CUDA),
        [
            "ladder try kernels/cuda/mine.cu",
            "snakemake --cores all --config campaign=smoke 'devices=[cuda]' *",
        ],
    ),
    (
        Way(ON_GPU, given=(("FILE", "kernels/cuda/03_shared_tile.cu"),)),
        ["ladder try FILE --problem 64x4096x4096 *"],
    ),
    (Way(ON_GPU), ["ladder try kernels/cuda/*"]),
]
"""The first row with a command, or with its beginning and ` *`, says how it is run."""

CI = ".ci/run"
CONTAINER = "tests/container/test_container.py::"
PARTITIONS = "tests/workflow/test_partitions.py::"
EVERYDAY = "tests/unit/test_everyday.py::"
MODULE = "tests/workflow/test_module.py::"
PAGES_FILLED = "tests/published/test_pages.py::"
ELSEWHERE: dict[str, list[str]] = {
    CI: [
        "make",
        "make setup",
        "make lint",
        "make test-all",
        "make test-oldest",
        "make test-slurm",
        "make test-container",
        "make redraw",
        "make setup-cutlass",
        "make setup-triton",
        "snakemake --lint",
        "snakemake --cores 1",
        "snakemake --cores 1 --config 'devices=[cpu]'",
    ],
    "`.ci/run`, in other words": [
        "make test",
        "python -m pytest -m MARKER",
        "make check-published",
        "make setup-cutlass setup-triton",
        "snakemake --cores 1 published",
        "snakemake published",
        "apt-get install *",
        ".ci/run",
    ],
    "tests/unit/test_command.py::test_an_example_is_shown_and_understood": [
        "ladder try",
        "ladder check",
        "ladder new",
        "ladder compare",
        "ladder export",
        "ladder init",
        "ladder run",
        "ladder gate",
    ],
    f"{PAGES_FILLED}test_a_page_is_filled_from_the_data": ["python -m book"],
    f"{PAGES_FILLED}test_the_example_of_the_data_dictionary_prints_the_ratios_of_each_rung": [
        "docs/data.md: python"
    ],
    "tests/published/test_book.py::test_one_page_can_be_filled_alone": ["python -m book PAGE"],
    "tests/published/test_data.py::test_the_tables_of_repeats_are_current": ["ladder repeat"],
    "tests/workflow/test_command.py::test_every_example_runs": ["ladder publish results/*"],
    "tests/unit/test_publish.py::test_all_is_drawn_and_summed_again": ["ladder publish"],
    "tests/workflow/test_trial_processes.py::test_watching_with_a_real_worker": [
        "ladder try FILE --watch"
    ],
    "tests/workflow/test_gpus.py::test_one_gpu_at_a_time_unless_more_are_asked_for_and_what_is_counted_runs_on_it": [
        "snakemake --cores 1 counters"
    ],
    "tests/unit/test_studies.py::test_its_help_is_its_text_and_measures_nothing": [
        "python studies/*",
        "make bench",
    ],
    f"{EVERYDAY}test_cleaning_leaves_what_is_published_and_what_is_installed": ["make clean"],
    f"{EVERYDAY}test_a_python_that_suits_is_found_beside_one_that_does_not": ["make PYTHON=*"],
    f"{EVERYDAY}test_the_script_of_a_night_ends_with_the_first_code_that_is_not_0": [
        "./night.sh; *",
        "0 2 * * *",
        "MAILTO=*",
        "docs/everyday.md: script",
    ],
    f"{CONTAINER}test_every_command_of_the_page_runs": [
        "make image",
        "mkdir -p results",
        "install -d -m 777 theirs",
        "echo '{campaign: mine, *",
        "podman run --rm --user *",
        "podman run --rm --entrypoint=*",
        "podman image inspect *",
        "podman run * --dry-run",
    ],
    f"{CONTAINER}test_a_strangers_kernel_runs_as_the_page_on_trust_says": [
        "install -d -m 777 judged",
        "podman run * 'kernels=[cpu/90_stranger]'",
        "ladder try stranger.c --sandbox *",
        "ladder try stranger.c --sandbox",
    ],
    f"{CONTAINER}test_snakemake_runs_its_jobs_in_the_image": [
        "podman save *",
        "apptainer build *",
        "snakemake --cores 1 --sdm apptainer",
    ],
    f"{CONTAINER}test_two_builds_hold_the_same": ["IMAGE_FACTS=*"],
    f"{CONTAINER}test_a_gpu_comes_in_by_its_cdi_name": ["podman run --rm --userns=keep-id *"],
    "tests/cluster/test_slurm.py::test_the_commands_on_the_page_work": [
        "snakemake --profile profiles/slurm --configfile my.yaml",
        "snakemake --profile profiles/slurm --configfile my.yaml --dry-run",
        "snakemake --profile profiles/cluster-generic *",
        "sinfo *",
        "squeue *",
        "scontrol *",
    ],
    f"{PARTITIONS}test_a_profile_plans_every_job": ["snakemake --profile profiles/htcondor *"],
    f"{PARTITIONS}test_the_pod_of_kubernetes_runs_a_command_that_exists": ["kubectl *"],
    "tests/emulated/test_emulated.py::test_the_kernel_of_the_readme_is_right_in_the_gauntlet": [
        "README.md: c++"
    ],
    "tests/workflow/test_bring_your_kernel.py::test_every_stage_gets_the_message_of_the_page": [
        "docs/bring-your-kernel.md: *"
    ],
    "tests/workflow/test_author.py::test_the_session_on_the_page_comes_out_as_it_says": [
        "docs/first-kernel.md: diff",
        "ladder try kernels/cpu/mine.c",
        "ladder try FILE",
        "snakemake --cores all --config campaign=smoke 'devices=[cpu]' 'kernels=[cpu/mine]'",
    ],
    "tests/workflow/test_versions.py::test_versions_are_compared_and_drawn": [
        "uv pip install --no-deps *",
        "snakemake --cores 8 --config campaign=cublas-versions",
        "ladder compare results/cublas-versions/*",
    ],
    f"{MODULE}test_the_commands_of_the_page_run_in_an_empty_folder": [
        "make wheel",
        "ladder init my-kernels",
        "cd my-kernels",
        "ladder run config/mine.yaml *",
        "ladder run config/mine.yaml",
        "ladder compare results/mine/*",
    ],
    f"{MODULE}test_the_rules_are_a_module": ["docs/module.md: snakemake"],
    "tests/unit/test_gate.py::test_the_commands_of_the_page_run": ["ladder gate *"],
    "tests/unit/test_gate.py::test_the_action_passes_its_inputs_on": ["docs/gate.md: yaml"],
    "tests/unit/test_export.py::test_the_code_of_the_page_launches": ["docs/export.md: *"],
    "tests/workflow/test_documented.py::test_a_block_of_a_campaign_is_planned": [
        "docs/compilers.md: yaml"
    ],
    "tests/unit/test_documented.py::test_a_submit_command_has_the_keys_of_its_profile": [
        "docs/clusters.md: yaml"
    ],
    "tests/workflow/test_agents.py::test_the_program_of_the_page_mends_a_kernel_by_its_verdicts": [
        "docs/agents.md: *"
    ],
    "tests/published/test_python.py::test_the_blocks_of_the_page_run_one_after_another": [
        "docs/python.md: python"
    ],
    "nowhere: an idle machine": ["make test-machine"],
    "nowhere: GPUs; the rest of the GPU's tests": [
        "python -m pytest -m gpu",
        "pytest -m gpu *",
        "pytest -m gpu",
        "nvidia-smi *",
    ],
    "nowhere: a file of your own": ['python -m pytest -m "" FILE'],
    "nowhere: the network; `.ci/run` begins with a clean clone": ["git clone *"],
    "nowhere: the registry, and changes the lock": ["make lock"],
    "nowhere: the network; `make test-slurm` installs the same lock": ["make setup-cluster"],
    "nowhere: Docker, Apptainer or a registry of your own": [
        "docker *",
        "podman pull *",
        "apptainer run *",
        "make image IMAGE_ARGS=*",
        "podman build",
        "snakemake --cores 1 --sdm apptainer --apptainer-args=--nv",
    ],
    "nowhere: Slurm with accounting": ["snakemake * --slurm-status-command sacct"],
    "nowhere: a formula": ["|C - AB| *"],
    "nowhere: an excerpt of a kernel": ["docs/ladder/*: c++"],
    "nowhere: a picture": ["docs/architecture.md: plain"],
}
"""What runs other commands and the code blocks, PAGE: LANGUAGE: `.ci/run`, FILE::TEST, or why
nothing does.
"""


def named(name: str, pattern: str) -> bool:
    """Return whether a pattern, in which `*` stands for anything, names this."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def way(command: str) -> Way | None:
    """Return how a command is run in a clone, if it is run there."""
    for known, patterns in IN_A_CLONE:
        if any(named(command, pattern) for pattern in patterns):
            return known
    return None


def run_by(where: str) -> list[str]:
    """Return the commands that a test runs in a clone."""
    return [command for command in commands() if (known := way(command)) and known.where == where]


REPRODUCED = "config/reproduce.yaml"
SHORTER = (
    (REPRODUCED, "max_samples: 20", "max_samples: 3"),
    (REPRODUCED, "processes: 5, rounds: 8", "processes: 3, rounds: 3"),
    (REPRODUCED, "[256, 512]\n    - [32, 1024, 1024]", "[256]"),
    ("kernels/cpu/03_blocked.c", "BM: [64, 256], BN: [256, 512], BK: [32", "BM: [256], BK: [32"),
    ("kernels/cpu/04_vectorized_parallel.c", "MC: [60, 120, 240], NC: [512, 1024], ", ""),
)
"""A file, and what is shorter in a clone: fewer samples, processes, problems and configurations."""


class Stranger(Project):
    """A copy of all that a clone has, with less to measure for `reproduce` and `try`, and the
    commands of its environment. Each command runs once, whoever asks for it.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in ("docs", "book", "studies", "tests"):
            shutil.copytree(HOME / name, folder / name)
        published = folder / "results" / "published"
        ignored = shutil.ignore_patterns("nvidia-*")  # `make check-published` judges all of them
        shutil.copytree(HOME / "results" / "published", published, ignore=ignored)
        synthetic.index(published)
        claimed = published / "claims.json"
        entries = [
            entry
            for entry in json.loads(claimed.read_text())
            if not entry["dataset"].startswith("nvidia-")
        ]
        claimed.write_text(json.dumps(entries))
        for path, much, little in SHORTER:
            text = (folder / path).read_text()
            assert much in text
            self.write(path, text.replace(much, little))
        for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml", ".gitignore"):
            shutil.copy(HOME / name, folder)
        for name in ("ladder", "snakemake"):
            script = f'#!/bin/sh\nexec {self.python} -m {name} "$@"\n'
            self.write(f".venv/bin/{name}", script).chmod(0o755)
        (folder / ".venv" / "bin" / "uv").symlink_to(HOME / ".venv" / "bin" / "uv")
        own = (
            'campaign: mine, devices: [cpu], kernels: ["cpu/02*"], problems: {cpu: [{square: 64}]}, '
            "confirm: {processes: 0}"
        )
        self.write("my/own.yaml", f"{{{own}}}\n")
        small = {"problems": [(256, 256, 256)], "kernels": ("03_shared_tile", "cublas")}
        for seed, night in enumerate(NIGHTS):
            synthetic.write(folder / night, seed, "nvidia-made-up", **small)
        identity = ("-c", "user.name=Stranger", "-c", "user.email=stranger@example.org")
        for command in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-qm", "A clone")):
            subprocess.run(["git", *command], cwd=folder, check=True)
        self.codes: dict[str, int] = {}
        self.printed: dict[str, str] = {}

    def run(self, command: str) -> int:
        """Run a documented command; returns its exit code."""
        if command not in self.codes:
            known = way(command)
            assert known, command
            if known.after:
                self.run(known.after)
            words = command + (" --dry-run" if known.planned else "")
            for name, value in known.given:
                words = words.replace(name, value)
            environment = os.environ | {
                "PATH": f"{self.folder}/.venv/bin:{os.environ['PATH']}",
                "NO_COLOR": "1",
                "UV_CACHE_DIR": f"{self.folder}/uv",
            }
            if known.planned:
                uuids = [f"GPU-{number}" for number in range(4)]
                self.simulate(name="NVIDIA H200", uuids=uuids, memory_bytes=140 << 30)
                environment |= self.environment
            done = subprocess.run(
                ["bash", "-c", words],
                cwd=self.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
                check=False,
            )
            self.environment.clear()
            self.codes[command], self.printed[command] = done.returncode, done.stdout
        return self.codes[command]
