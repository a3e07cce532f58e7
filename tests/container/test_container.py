"""The image, built as docs/container.md says on a base made here, and run without root, network,
capabilities or a writable root.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ladder.core.errors import NOTHING_MEASURED
from planted import C_RIGHT, HOME, c_kernel

# building the image takes the first test minutes
pytestmark = [pytest.mark.container, pytest.mark.timeout(3600)]

PAGE = (HOME / "docs" / "container.md").read_text()
HARDENED = [
    "podman",
    "run",
    "--rm",
    "--network=none",
    "--read-only",
    "--tmpfs=/tmp:rw,nosuid,nodev,exec",
    "--cap-drop=ALL",
]
HARDENED += ["--security-opt=no-new-privileges", "--user=12345:23456"]
# for machines without systemd and without the right to raise limits
CONTAINERS = """
[containers]
default_ulimits = ["nofile=1024:16384", "nproc=4096:16384"]
netns = "host"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
"""
# as Debian's own slim images are made
SLIM = [
    f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "locale", "man")
] + ["--dpkgopt=force-unsafe-io"]
LOCKED = set(
    re.findall(
        r"^([a-z0-9-]+)==([^ ]+)", (HOME / "envs" / "requirements.lock").read_text(), re.MULTILINE
    )
)
LOCK = dict(LOCKED)  # some have another version for each Python; none of those this file looks up
BASE = "localhost/debian:bookworm-local"
Run = Callable[..., str]
INSIDE = [f"tests/unit/test_{name}.py" for name in ("child", "compile", "cpu_kernels", "records")]
INSIDE += ["-k", "not test_every_rung or 04_"]
"""What compiles, runs compiled code and keeps what it measured; the rest is the same Python
outside, and the image itself has run it. The rungs below the fourth are in the smoke campaign,
which verifies them too.
"""
REDRAWN = "cpu-intel-xeon-processor/default"
"""The dataset that the image draws again, a small one; `make` draws all of them, with the same
locked packages.
"""


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a command that must succeed, with Podman's storage in a folder of the test's own;
    returns its output.
    """
    absent = pytest.fail if os.environ.get("CI") else pytest.skip  # CI installs what they need
    for tool in ("podman", "mmdebstrap"):
        if not shutil.which(tool):
            absent(f"{tool} is not installed")
    if os.getuid() != 0:
        absent("mounting the layers needs root")
    folder = tmp_path_factory.mktemp("podman")
    (folder / "containers.conf").write_text(CONTAINERS)
    storage = (
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    )
    (folder / "storage.conf").write_text(storage)
    # without a layer of each step, which only a second build would use
    arguments = ["--build-arg", f"BASE_IMAGE={BASE}", "--layers=false"]
    if certificates := os.environ.get("SSL_CERT_FILE"):
        arguments += ["--secret", f"id=ca,src={certificates}"]
    environment = os.environ | {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
        "IMAGE_ARGS": shlex.join(arguments),
    }

    def run(*command: str, cwd: Path = HOME, code: int = 0) -> str:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout[-8000:]
        return done.stdout

    yield run
    run("podman", "rmi", "--all", "--force")  # and what is mounted for them with them
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def image(run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image's name."""
    base = tmp_path_factory.mktemp("base") / "base.tar"
    run(
        "mmdebstrap",
        "--quiet",
        "--variant=minbase",
        "--include=usr-is-merged",
        *SLIM,
        "bookworm",
        str(base),
    )
    run("podman", "import", "--quiet", str(base), BASE)
    base.unlink()
    run("make", "image")
    return "gemm-ladder"


@pytest.fixture(scope="session")
def results(run: Run, image: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the smoke campaign and the drawing of a published dataset left in a mounted folder."""
    folder = tmp_path_factory.mktemp("results")
    folder.chmod(0o777)
    for what in (
        ["--config", "campaign=smoke", "architectures=[sm_90]"],
        [f"results/redrawn/{REDRAWN}/best.csv"],
    ):
        run(*HARDENED, "-v", f"{folder}:/data/results", image, "--cores", "2", *what)
    return folder


def inside(run: Run, image: str, script: str) -> str:
    """What a shell in the image prints."""
    return run(*HARDENED, "--entrypoint=sh", image, "-c", script)


def test_a_user_without_rights_runs_the_smoke_campaign(results: Path) -> None:
    (environment,) = results.glob("smoke/*/environment.json")
    assert (environment.parent / "figures" / "performance-warm.svg").stat().st_size > 5000
    assert (results / "smoke" / "build" / "sm_90" / "03_shared_tile" / "resources.csv").exists()
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=HOME, text=True).strip()
    assert json.loads(environment.read_text())["project"]["commit"] == head
    # published figures byte for byte: the job that holds them against their checksums has passed
    assert (results / "redrawn" / REDRAWN / "best.csv").exists()


def test_a_second_container_finds_nothing_to_do_and_makes_the_report(
    run: Run, image: str, results: Path
) -> None:
    again = [*HARDENED, f"--volume={results}:/data/results", image, "--config", "campaign=smoke"]
    assert "Nothing to do: measured " in run(*again, code=NOTHING_MEASURED)
    run(*again, "--report", "results/report.html")
    page = (results / "report.html").read_text()
    assert "performance-warm" in page
    assert 'src="http' not in page


def test_the_command_is_there(run: Run, image: str) -> None:
    output = run(*HARDENED, "--entrypoint=ladder", image, "publish", "/data/results", code=1)
    assert output.startswith("Error: /data/results: no environment.json")


def test_without_a_folder_to_write_to_it_says_so(run: Run, image: str) -> None:
    assert "Error: /data/results: not writable for user 12345:23456" in run(
        *HARDENED, image, code=1
    )


def test_the_test_suite_passes_inside(run: Run, image: str, tmp_path: Path) -> None:
    names = ["pytest", "pluggy", "iniconfig", "hypothesis", "sortedcontainers"]
    names += ["pytest-xdist", "execnet"]
    uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet", "--no-deps"]
    options = ["--python-version=3.11", f"--target={tmp_path}", "--require-hashes"]
    packages = [f"{name}=={LOCK[name]}" for name in names]
    run(*uv, *options, "-c", "envs/requirements.lock", *packages)
    tmp_path.chmod(0o755)
    brought = ["CONTRIBUTING.md", "README.md", "docs", "pyproject.toml", "results/published"]
    brought += ["book", "studies", "tests"]
    mounts = [f"--volume={HOME / name}:/opt/gemm-ladder/{name}:ro" for name in brought]
    settings = ["--env=HYPOTHESIS_STORAGE_DIRECTORY=/tmp/hypothesis"]
    start = (
        "import site; site.addsitedir('/tmp/packages'); import pytest; raise "
        "SystemExit(pytest.main())"
    )
    suite = ["-c", start, "-q", "-p", "no:cacheprovider", "-n", "2", *INSIDE]
    command = [
        *HARDENED,
        *mounts,
        f"--volume={tmp_path}:/tmp/packages:ro",
        *settings,
        "--workdir=/opt/gemm-ladder",
    ]
    output = run(*command, "--entrypoint=python", image, *suite)
    assert re.search(r"\d\d passed", output), output[-2000:]
    assert "failed" not in output


@pytest.mark.skipif(
    "IMAGE_FACTS" not in os.environ, reason="two more builds, for the file that IMAGE_FACTS names"
)
def test_two_builds_hold_the_same(run: Run, image: str, tmp_path: Path) -> None:
    """Writes what docs/container.md says of the image, which tests/published/test_pages.py checks.
    Sizes in MB.
    """
    parts = {
        "cuBLAS": "nvidia/cu13/lib/libcublas*",
        "cuBLASLt": "nvidia/cu13/lib/libcublasLt*",
        "nvcc": "nvidia/cu13/bin nvidia/cu13/nvvm nvidia/cu13/include",
        "NVRTC": "nvidia/cu13/lib/libnvrtc*",
        "PyArrow": "pyarrow*",
        "bindings": "cuda* nvmath*",
        "NumPy": "numpy*",
        "tables and figures": "pandas* matplotlib* fontTools* fonttools*",
        "project": "/opt/gemm-ladder",
    }
    shell = [*HARDENED, "--user=0", "--entrypoint=sh"]
    # to the container, by Podman
    given = "-not -path '/run/*' -not -path '/etc/host*' -not -path /etc/resolv.conf"
    seconds, listings, layers = [], [], []
    listed = f"find / -xdev -type f {given} -exec sha256sum {{}} + | sort"
    for name in ("first", "second"):
        start = time.monotonic()
        run("bash", "-c", f'IMAGE_ARGS="$IMAGE_ARGS --layers --no-cache --tag {name}" make image')
        seconds.append(round(time.monotonic() - start))
        listings.append(run(*shell, name, "-c", listed).splitlines())
        layers.append(json.loads(run("podman", "image", "inspect", name))[0]["RootFS"]["Layers"])
    archive = tmp_path / "image.tar"
    run("podman", "save", "--quiet", "--format=oci-archive", f"--output={archive}", "first")
    sizes = {
        what: float(json.loads(run("podman", "image", "inspect", what))[0]["Size"])
        for what in ("first", BASE)
    }
    shown = run(
        *shell,
        "first",
        "-c",
        "cd /opt/venv/lib/python3*/site-packages; "
        + "; ".join(f"du -scb {paths} | tail -n 1" for paths in parts.values())
        + "; find / -xdev -name '*.pyc' -print0 | du -cb --files0-from=- | tail -n 1",
    )
    part_sizes = [int(line.split()[0]) for line in shown.splitlines()]
    facts = {
        "unpacked": round(sizes["first"] / 1e6),
        "archive": round(archive.stat().st_size / 1e6),
        "base": round(sizes[BASE] / 1e6),
        "parts": {
            what: round(size / 1e6)
            for what, size in zip([*parts, "bytecode"], part_sizes, strict=True)
        },
        "packages": len(inside(run, "first", "cat /opt/gemm-ladder/versions.txt").splitlines()),
        "files": len(listings[0]),
        "files_that_differ": sorted(
            {line.split(maxsplit=1)[1] for line in set(listings[0]) ^ set(listings[1])}
        ),
        "layers": len(layers[0]),
        "layers_that_differ": sum(a != b for a, b in zip(*layers, strict=True)),
        "build_seconds": seconds,
    }
    Path(os.environ["IMAGE_FACTS"]).write_text(json.dumps(facts, indent=1) + "\n")
    assert facts["files_that_differ"] == []


def test_the_labels_say_what_it_is(run: Run, image: str) -> None:
    (config,) = json.loads(run("podman", "image", "inspect", image))
    prefix = "org.opencontainers.image."
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    for label, value in (
        ("version", re.escape(project["version"])),
        ("licenses", project["license"]),
        ("revision", r"[0-9a-f]{40}(-dirty)?"),
        ("created", r"\d{4}-\d\d-\d\dT.*"),
        *((name, ".+") for name in ("title", "description", "base.name")),
        ("source", ".*"),  # a clone may have no origin
    ):
        assert re.fullmatch(value, config["Labels"][prefix + label])
    assert "NVIDIA_REQUIRE_CUDA=cuda>=13.0" in config["Config"]["Env"]
    assert config["User"] == "1000:1000"


def test_it_holds_no_cache_no_pip_and_nothing_of_the_build(run: Run, image: str) -> None:
    shell = [*HARDENED, "--user=0", "--entrypoint=sh", image, "-c"]
    where = "/root /tmp /opt /var/lib/apt/lists /var/cache"
    left = run(
        *shell, f"find {where} -mindepth 1 -maxdepth 1 -not -name .bashrc -not -name .profile"
    )
    assert set(left.split()) == {"/opt/gemm-ladder", "/opt/venv"}
    names = ("pip", "uv", "pip.conf", "uv.toml", ".git", "Python.h", "pytest", "lto1")
    conditions = " -o ".join(f"-name {name}" for name in names)
    assert run(*shell, f"find / -xdev \\( {conditions} \\)") == ""


def test_the_bill_of_materials_is_what_is_installed_and_what_is_locked(
    run: Run, image: str
) -> None:
    bill = json.loads(inside(run, image, "cat /opt/gemm-ladder/sbom.cdx.json"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert len({component["bom-ref"] for component in bill["components"]}) == len(
        bill["components"]
    )
    python = {
        c["name"]: c["version"] for c in bill["components"] if c["purl"].startswith("pkg:pypi/")
    }
    assert python.items() <= LOCKED
    assert {"snakemake", "pycuda", "nvidia-cublas"} <= python.keys()
    assert python.keys().isdisjoint({"pytest", "ruff", "mypy", "pip", "uv"})
    debian = {
        f"{c['name']} {c['version']}"
        for c in bill["components"]
        if c["purl"].startswith("pkg:deb/")
    }
    assert debian == set(
        inside(run, image, "dpkg-query -W -f '${Package} ${Version}\n'").splitlines()
    )
    versions = inside(run, image, "cat /opt/gemm-ladder/versions.txt").splitlines()
    assert len(versions) == len(python) + len(debian)


def test_a_gpu_comes_in_by_its_cdi_name(run: Run, image: str) -> None:
    folder = Path("/run/cdi")
    if any(folder.glob("*")) or any(Path("/etc/cdi").glob("*")):
        pytest.skip("this machine has devices of its own in /etc/cdi or /run/cdi")
    folder.mkdir(exist_ok=True)
    spec = folder / "gemm-ladder-test.json"
    edits = {
        "env": ["MADE_UP_GPU=here"],
        "deviceNodes": [{"path": "/dev/nvidia0", "hostPath": "/dev/null"}],
    }
    gpu = {
        "cdiVersion": "0.3.0",
        "kind": "nvidia.com/gpu",
        "devices": [{"name": "all", "containerEdits": edits}],
    }
    spec.write_text(json.dumps(gpu))
    try:
        given = ["--device=nvidia.com/gpu=all", "--entrypoint=sh", image, "-c"]
        shown = run(*HARDENED, *given, "echo $MADE_UP_GPU; ls /dev/nvidia0")
    finally:
        spec.unlink()
    assert shown.split() == ["here", "/dev/nvidia0"]


def test_every_command_of_the_page_runs(
    run: Run, image: str, results: Path, tmp_path: Path
) -> None:
    """Blocks marked `sh` are run, line by line; what no test can run here is in blocks marked
    `console`.

    Where containers with fewer rights have been: what is left to do is the campaign of the page's
    own.
    """
    shutil.copytree(results, tmp_path / "results", symlinks=True)
    commands = (
        "".join(re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
        .replace("\\\n", "")
        .splitlines()
    )
    assert len(commands) > 4
    (tmp_path / "kernels").mkdir()
    shutil.copytree(HOME / "kernels", tmp_path / "kernels", dirs_exist_ok=True)
    commands.remove("make image")  # by which the image was made
    drawing = [index for index, command in enumerate(commands) if command.endswith(" published")]
    for index in drawing:
        commands[index] += " --dry-run"  # one dataset is drawn above
    assert len(drawing) == 1
    for command in commands:
        measured_before = command.endswith("campaign=smoke")
        run("bash", "-c", command, cwd=tmp_path, code=NOTHING_MEASURED if measured_before else 0)


CAREFUL = """
  int reached = geteuid() == 0 || open("/opt/gemm-ladder/written", O_CREAT | O_WRONLY, 0600) >= 0;
  const struct sockaddr_in far = {.sin_family = AF_INET, .sin_port = 9, .sin_addr.s_addr = 0x01010101};
  const int udp = socket(AF_INET, SOCK_DGRAM, 0);
  reached |= udp >= 0 && connect(udp, (const struct sockaddr *)&far, sizeof far) == 0; /* asks for a route; sends nothing */
  close(udp);
  if (reached) return;
"""
"""C that leaves the result unwritten where it reaches what it should not."""


def test_a_strangers_kernel_runs_as_the_page_on_trust_says(
    run: Run, image: str, tmp_path: Path
) -> None:
    page = (HOME / "docs" / "trust.md").read_text()
    includes = "".join(
        f"#include <{name}.h>\n" for name in ("fcntl", "netinet/in", "sys/socket", "unistd")
    )
    kernel = c_kernel("stranger", CAREFUL + C_RIGHT).replace("---*/\n", "---*/\n" + includes, 1)
    (tmp_path / "stranger.c").write_text(kernel)
    (tmp_path / "stranger.c").chmod(0o644)
    (block,) = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    output = run("bash", "-ec", block, cwd=tmp_path)
    assert re.search(r"^  90_stranger ", output, re.MULTILINE), output[-3000:]
    assert "Kernels that failed" not in output
    assert list((tmp_path / "judged").glob("smoke-cpu-90_stranger/cpu-*/best.csv"))
    ladder = str(Path(sys.executable).with_name("ladder"))
    given = "stranger.c", "--sandbox", "--size=8", "--json=verdict"
    output = run(ladder, "try", *given, cwd=tmp_path)
    assert "\ncorrect; " in output
    verdict = json.loads((tmp_path / "verdict").read_text())
    assert (verdict["kernel"], verdict["status"]) == ("cpu/stranger", "correct")


def test_snakemake_runs_its_jobs_in_the_image(
    run: Run, image: str, tmp_path: Path, make_project
) -> None:
    if not shutil.which("apptainer"):
        pytest.skip("apptainer is not installed: Debian 12 has no package of it")
    project = make_project()
    archive, folder = tmp_path / "image.tar", project.folder
    run("podman", "save", "--quiet", "--format=oci-archive", f"--output={archive}", image)
    stored = "-noI -noD -noF"  # not compressed: in seconds instead of minutes
    run(
        "apptainer",
        "build",
        f"--mksquashfs-args={stored}",
        f"{folder}/gemm-ladder.sif",
        f"oci-archive://{archive}",
    )
    archive.unlink()
    log = project.ok("--config", "campaign=smoke", "devices=[cpu]", "--sdm", "apptainer")
    assert "Activating singularity image gemm-ladder.sif" in log
    (environment,) = (folder / "results" / "smoke").glob("*/environment.json")
    inner = run(
        "apptainer",
        "exec",
        f"{folder}/gemm-ladder.sif",
        "python",
        "-c",
        "import sys; print(sys.version.split()[0])",
    )
    assert (
        json.loads(environment.read_text())["python"]["version"] == inner.strip().splitlines()[-1]
    )
