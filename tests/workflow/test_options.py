"""Options of Snakemake that users know from other workflows, where no other test tries them.

tests/workflow/test_robust.py has `--rerun-incomplete`, which profiles/default sets, and `--sdm
apptainer`; test_documented.py `--report`; test_partitions.py the other profiles.
"""

import re

import pytest
from planted import C_RIGHT, c_kernel

pytestmark = pytest.mark.slow

CAMPAIGN = """
campaign: tiny
devices: [cpu]
kernels: ["cpu/9*"]
problems: {cpu: [{square: 48}]}
confirm: {processes: 0}
"""
CC = """#!/bin/sh
[ "$1" = --version ] || ! { rm "$0.1" || rm "$0.2"; } 2>/dev/null || { echo 'as: not found' >&2; exit 1; }
exec gcc "$@"
"""
"""A compiler that fails once for each of two files: for a kernel, and when it is tried for itself."""
ENGINE = """
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor as Executor
from snakemake_interface_executor_plugins.settings import CommonSettings

common_settings = CommonSettings(
    non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False
)
"""
"""An engine that submits jobs, as far as planning goes."""


@pytest.fixture(scope="module")
def planned(make_project):
    """A project with two kernels and a campaign without partitions, that has an engine."""
    project = make_project()
    for name in ("90_a", "91_b"):
        project.write(f"kernels/cpu/{name}.c", c_kernel(name, C_RIGHT))
    project.campaign(CAMPAIGN)
    project.write("workflow/snakemake_executor_plugin_elsewhere/__init__.py", ENGINE)
    project.write("cluster/config.yaml", "executor: elsewhere\njobs: 5\n")
    return project


PROFILE = ("--profile", "cluster")
ELSEWHERE = ("--executor", "elsewhere", "--jobs", "5")
RESOURCES = ("--default-resources", "mem_mb=100")


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        (("--jobs", "5", *RESOURCES, "--dry-run"), False),
        ((*PROFILE, *RESOURCES, "--executor", "local", "--dry-run"), False),
        (ELSEWHERE, True),
        ((*PROFILE, "--dry-run"), True),
    ],
)
def test_jobs_are_submitted_only_to_machines_that_the_campaign_names(planned, options, refused):
    done = planned.snakemake("--configfile", "config/test.yaml", *options)
    message = "Error: config/test.yaml: partitions: missing; submitted jobs run on other machines"
    assert (done.returncode, message in done.stdout) == (int(refused), refused), done.stdout
    assert "Traceback" not in done.stdout


def test_a_compiler_that_is_missing_is_named_in_one_line(planned, monkeypatch):
    monkeypatch.setenv("CC", "nogcc")
    done = planned.snakemake("--configfile", "config/test.yaml", "--dry-run")
    *_, last = done.stdout.strip().splitlines()
    assert done.returncode == 1
    assert last.startswith("Error: CC: the C compiler nogcc was not found; expected gcc")
    assert "InputFunctionException" not in done.stdout


def test_a_job_that_fails_is_started_again_or_leaves_the_others_as_one_asks(
    planned, tmp_path, monkeypatch
):
    """In another folder. What failed because of the compiler, the next run compiles."""
    monkeypatch.setenv("CC", str(planned.folder / "bin" / "cc"))
    planned.write("bin/cc", CC).chmod(0o755)

    def compiled(*options, code=0):
        """How many of both kernels are compiled where the compiler fails at first."""
        for number in "12":
            planned.write(f"bin/cc.{number}", "")
        run = ("--directory", str(tmp_path), "--configfile", "config/test.yaml", *options)
        printed = planned.ok(*run, "--until", "compile", code=code)
        assert "Traceback" not in printed
        # at the end, and not of a job that another try has done
        assert printed.count("Error: the compiler refuses") == (1 if code else 0)
        return [path.read_text().count(",compiled,") for path in tmp_path.rglob("resources.csv")]

    assert compiled(code=1) == []
    assert compiled("--keep-going", code=1) == [1]
    assert compiled("--retries", "1") == [1, 1]


def test_a_campaign_is_made_in_batches(planned):
    run = ("--configfile", "config/test.yaml", "--dry-run", "--batch", "all=1/4")
    rules = re.findall(r"^(?:local)?rule (\w+):$", planned.ok(*run), re.MULTILINE)
    assert "measure" in rules
    assert "all" not in rules
