"""Campaigns that name partitions, and the profiles that submit them; what needs no cluster."""

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import yaml
from ladder.devices.detect import detect_cpu
from planted import HOME, written

CPU = detect_cpu().slug
CAMPAIGN = """
campaign: split
kernels: [cpu/02_reordered_ikj]
problems: {cpu: [{square: [32, 48]}]}
measure: {min_samples: 5, max_samples: 5, target: 0.5}
confirm: {processes: 0}
partitions:
"""
HERE = f"  one: {{device: {CPU}, resources: {{gres: gpu}}}}\n"


@pytest.mark.slow
def test_each_partition_is_a_dataset_and_one_figure_compares_them(project):
    """Planned; tests/cluster measures two."""
    config = project.campaign(CAMPAIGN + HERE + HERE.replace("one", "two"))
    plan = project.ok("results/split/compared-cpu.svg", "--configfile", config, "--dry-run")
    for name in ("one", "two"):
        assert f"results/split/{name}/best.csv" in plan
    rules = Counter(re.findall(r"^(?:local)?rule (\w+):$", plan, re.MULTILINE))
    # it is one CPU
    assert rules == {
        "support": 1,
        "compile": 1,
        "probe": 2,
        "measure": 2,
        "aggregate": 2,
        "compare": 1,
    }
    plan = project.ok("--configfile", config, "--config", "devices=[two]", "--dry-run")
    assert "results/split/two/best.csv" in plan
    assert "results/split/one/best.csv" not in plan
    assert "compared" not in plan


@pytest.mark.slow
def test_a_machine_with_another_device_is_refused(project):
    """tests/unit/test_campaign.py has a CPU's message, too."""
    gpu = HERE.replace(CPU, "nvidia-x, architecture: sm_90")
    config = project.campaign(
        CAMPAIGN.replace("problems: {", "problems: {cuda: [[1, 1, 1]], ") + gpu
    )
    project.write("results/split/build/sm_90/support.bin", "compiled before")
    done = project.snakemake("--configfile", config, "--", "results/split/one/environment.json")
    assert done.returncode != 0
    assert "partitions.one.device: got 'nvidia-x', but" in done.stdout
    assert "Traceback" not in done.stdout


GPUS = """
campaign: both
kernels: ["cuda/0[1-3]*"]
problems: {cuda: [{square: 64}]}
partitions:
  a100: {device: nvidia-a100, architecture: sm_80, resources: {request_gpus: 1, gpu: 1, requirements: a100}}
  h100: {device: nvidia-h100, architecture: sm_90, resources: {request_gpus: 1, gpu: 1, requirements: h100}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["slurm", "cluster-generic", "htcondor"])
def test_a_profile_plans_every_job(project, name):
    pytest.importorskip(
        f"snakemake_executor_plugin_{name.replace('-', '_')}",
        reason="`make setup-cluster` installs it",
    )
    log = project.ok(
        "--profile", f"profiles/{name}", "--configfile", project.campaign(GPUS), "--dry-run"
    )
    jobs = [
        (part.split(":")[0], "gpu=1" in part and "request_gpus=1" in part)
        for part in re.split(r"\n(?:rule|localrule) ", log)
    ]
    assert jobs.count(("compile", False)) == 6
    assert jobs.count(("measure", True)) == 6  # three parts on each machine
    assert {rule for rule, gpu in jobs if gpu} == {"probe", "measure", "confirm"}


@pytest.mark.slow
def test_the_pod_of_kubernetes_runs_a_command_that_exists(project):
    job = yaml.safe_load((HOME / "profiles" / "kubernetes" / "job.yaml").read_text())
    (container,) = job["spec"]["template"]["spec"]["containers"]
    arguments = [argument.replace("nvidia-h200", "cpu") for argument in container["args"]]
    assert "rule measure:" in project.ok(*arguments, "--dry-run")
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 1


STATUS = {
    ("qstat", "Job Id: 7.head\n    job_state = F\n    Exit_status = 0\n"): "success",
    ("qstat", "Job Id: 7.head\n    job_state = F\n    Exit_status = 271\n"): "failed",
    ("qstat", "Job Id: 7.head\n    job_state = Q\n"): "running",
    ("qstat", ""): "running",
    ("bjobs", "DONE \n"): "success",
    ("bjobs", "EXIT \n"): "failed",
    ("bjobs", "PEND \n"): "running",
    ("scontrol", "JobId=7 JobName=x JobState=COMPLETED Reason=None"): "success",
    ("scontrol", "JobId=7 JobName=x JobState=TIMEOUT Reason=TimeLimit"): "failed",
    ("scontrol", "JobId=7 JobName=x JobState=PENDING Reason=Priority"): "running",
    ("scontrol", ""): "running",
}


@pytest.mark.parametrize(
    ("command", "says", "status"), [(*key, status) for key, status in STATUS.items()]
)
def test_what_became_of_a_job_is_read_from_each_engine(tmp_path: Path, command, says, status):
    for tool in ("sed", "tr", "cat"):
        (tmp_path / tool).symlink_to(
            f"/usr/bin/{tool}" if Path(f"/usr/bin/{tool}").exists() else f"/bin/{tool}"
        )
    (tmp_path / "said").write_text(says)
    written(tmp_path / command, f"#!/bin/sh\ncat {tmp_path}/said\n", 0o755)
    script = HOME / "profiles" / "cluster-generic" / "status.sh"
    done = subprocess.run(
        ["/bin/sh", script, "7"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{status}\n"


def test_the_id_of_a_job_is_read_from_bsub(tmp_path: Path):
    written(
        tmp_path / "bsub", "#!/bin/sh\necho 'Job <123> is submitted to queue <normal>.'\n", 0o755
    )
    script = HOME / "profiles" / "cluster-generic" / "bsub.sh"
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert (
        subprocess.run(
            [script, "x"], env={"PATH": path}, capture_output=True, text=True, check=True
        ).stdout
        == "123\n"
    )
