"""Return the files that the rules of a campaign make and read, and the resources that its jobs
request.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ladder.core.errors import InputError
from ladder.core.files import digest, write_whole
from ladder.core.types import KINDS
from ladder.devices.detect import DetectedDevice
from ladder.model.baselines import BASELINE_JOB
from ladder.model.campaign import Campaign
from ladder.model.kernel import Kernel
from ladder.storage.dataset_layout import CONFIRMED, JUDGED, TABLES


@dataclass(frozen=True)
class Targets:
    """A campaign on its devices. Paths are relative to the folder that Snakemake runs in; those of
    kernels are absolute.
    """

    campaign: Campaign
    devices: Sequence[DetectedDevice]
    architectures: Sequence[str]
    """The architectures to compile CUDA kernels for."""

    def device(self, slug: str) -> DetectedDevice:
        """Return the device with a slug."""
        return {device.slug: device for device in self.devices}[slug]

    def everything(self) -> list[str]:
        """Return all that the campaign makes on this machine, except hardware counters."""
        page = [f"results/{self.campaign.name}/index.html"] if self.devices else []
        return [
            *self.compiled(),
            *self.tables(),
            *self.measured("figures", JUDGED),
            *self.compared(),
            *page,
        ]

    def compiled(self) -> list[str]:
        """Return the resources of every chosen kernel on every architecture that it is compiled
        for.
        """
        return [
            f"results/{self.campaign.name}/build/{arch}/{kernel.name}/resources.csv"
            for arch, kernel in self._compiling()
        ]

    def _compiling(self) -> list[tuple[str, Kernel]]:
        """Return each chosen kernel with every architecture that it is compiled for."""
        chosen = [(arch, "cuda") for arch in self.architectures]
        chosen += [(device.arch, "cpu") for device in self.devices if device.kind == "cpu"]
        return [
            (arch, kernel)
            for arch, kind in chosen
            for kernel in self.campaign.kernels.values()
            if kernel.kind == kind
        ]

    def tables(self) -> list[str]:
        """Return the samples and tables of all datasets. Snakemake makes a missing file again only
        if it is a target.
        """
        slugs = [device.slug for device in self.devices]
        return [
            *self.measured("environment.json", *(f"{name}.csv" for name in TABLES)),
            *(str(path) for slug in slugs for path in (*self.samples(slug), *self.confirmed(slug))),
        ]

    def measured(self, *names: str, kind: str = "") -> list[str]:
        """Return the files with these names in the datasets of all devices, or of the devices of a
        kind.
        """
        devices = [device.slug for device in self.devices if device.kind == (kind or device.kind)]
        return [f"results/{self.campaign.name}/{slug}/{name}" for slug in devices for name in names]

    def counted(self, ncu: bool) -> list[str]:
        """Return the figures of hardware counters; `ncu` says whether Nsight Compute is installed.

        Raises `InputError` if nothing can be counted.
        """
        figures = self.measured("counters.svg", kind="cuda")
        if not figures:
            raise InputError(
                f"{self.campaign.source}: devices: got "
                f"{', '.join(device.slug for device in self.devices)}; expected an NVIDIA GPU "
                "among them. `counters` needs Nsight Compute, which counts on no other device"
            )
        if not ncu:
            raise InputError(
                "PATH: got no ncu; expected that of Nsight Compute, which `counters` needs"
            )
        return figures

    def compared(self) -> list[str]:
        """Return a figure for every kind of which the campaign has several devices."""
        several = [kind for kind in KINDS if len(self.compared_devices(kind)) > 1]
        return [f"results/{self.campaign.name}/compared-{kind}.svg" for kind in several]

    def compared_devices(self, kind: str) -> list[str]:
        """Return the devices of a kind, which one figure compares."""
        return [device.slug for device in self.devices if device.kind == kind]

    def indexed(self) -> list[str]:
        """Return the devices whose datasets the campaign's page shows."""
        return [device.slug for device in self.devices]

    def claims(self) -> list[Path]:
        """Return the judged claims of all datasets."""
        return [Path(path) for path in self.measured(JUDGED)]

    def contents(self, device: str) -> str:
        """Return a digest of a dataset's kernels. File times say nothing certain about contents."""
        return digest([self.campaign.kernels[id].digest for id in self._ids(device)])

    def machine(self, device: str) -> dict[str, str]:
        """Return what `detect.here` looks for on the machine of a job: a device's slug, its
        architecture and its partition.
        """
        partition = self.campaign.partitions.get(device)
        if partition is None:
            return {"slug": device}
        return {
            "slug": partition.device,
            "architecture": partition.architecture,
            "partition": device,
        }

    @cached_property
    def plans(self) -> dict[str, dict[str, Any]]:
        """What each job must do, by the name of its file. Kernels are named by their digests, so a
        plan follows their contents.
        """
        plans: dict[str, dict[str, Any]] = {}
        for arch, kernel in self._compiling():
            configurations = [
                {
                    "element_type": configuration.element_type,
                    "label": configuration.label,
                    "objection": objection,
                }
                for configuration, objection in self.campaign.configurations[kernel.id]
            ]
            made = {"kernel": kernel.id, "digest": kernel.digest, "configurations": configurations}
            plans[f"compile-{arch}-{kernel.name}"] = made
        for device in self.devices:
            slug, kind = device.slug, device.kind
            for job in self.campaign.jobs(kind):
                plan = self.campaign.plan(kind, job)
                contents = self.campaign.kernels[plan["kernel"]].digest if plan["kernel"] else ""
                plans[f"measure-{slug}-{job}"] = {
                    "machine": self.machine(slug),
                    "digest": contents,
                    "plan": plan,
                }
            confirmation = self.campaign.confirmation(kind)
            contents = self.contents(slug)
            plans[f"confirm-{slug}"] = {
                "machine": self.machine(slug),
                "digest": contents,
                "plan": confirmation,
            }
        return plans

    def plan(self, name: str) -> Path:
        """Return the file of a job's plan, the job's input."""
        return Path("results") / self.campaign.name / "plans" / f"{name}.json"

    def write_plans(self) -> None:
        """Write the plans that have changed. Snakemake then reruns their jobs. Raises `InputError`
        where nothing can be written.
        """
        for name, plan in self.plans.items():
            path, text = self.plan(name), json.dumps(plan, indent=1) + "\n"
            try:
                if not (path.exists() and path.read_text() == text):
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_whole(path, text.encode())
            except OSError as error:
                raise InputError(
                    f"{path}: {error.strerror}; expected a file that can be written"
                ) from None

    def drawing(self) -> dict[str, Any]:
        """Return the width of figures in inches, and their formats besides SVG."""
        return {"width": self.campaign.width, "formats": self.campaign.formats}

    def kernel(self, arch: str, name: str) -> Kernel:
        """Return the kernel with a name that is compiled for an architecture."""
        return self.campaign.kernels[f"{'cuda' if arch.startswith('sm_') else 'cpu'}/{name}"]

    def support(self, device: str) -> str:
        """Return the path of the pipeline's own device code, compiled."""
        return f"results/{self.campaign.name}/build/{self.device(device).arch}/support.bin"

    def binaries(self, device: str, job: str) -> str | list[str]:
        """Return the resources of a measure job's kernel; none for the baselines."""
        kernel = job.split(".")[0]
        if kernel == BASELINE_JOB:
            return []
        return (
            f"results/{self.campaign.name}/build/{self.device(device).arch}/{kernel}/resources.csv"
        )

    def _folder(self, device: str) -> Path:
        return Path("results") / self.campaign.name / device

    def environment(self, device: str) -> Path:
        """Return the path of the description of the device, its software and the project's
        state.
        """
        return self._folder(device) / "environment.json"

    def samples(self, device: str) -> list[Path]:
        """Return the raw samples of a dataset."""
        return [
            self._folder(device) / "samples" / f"{job}.parquet"
            for job in self.campaign.jobs(self.device(device).kind)
        ]

    def confirmed(self, device: str) -> list[Path]:
        """Return the raw samples of a dataset's confirmation; none if the campaign leaves it
        out.
        """
        return (
            [self._folder(device) / f"{CONFIRMED}.parquet"]
            if self.campaign.confirm["cuda"].processes
            else []
        )

    def _ids(self, device: str) -> list[str]:
        """Return the ids of a dataset's kernels, sorted by name."""
        names = sorted({path.name.split(".")[0] for path in self.samples(device)} - {BASELINE_JOB})
        return [f"{self.device(device).kind}/{name}" for name in names]

    def headers(self, device: str) -> list[Path]:
        """Return the files of a dataset's kernels; their headers hold the models."""
        return [self.campaign.kernels[id].path for id in self._ids(device)]

    def resources(self, device: str) -> list[Path]:
        """Return the compilers' reports on all configurations of a dataset."""
        build = Path("results") / self.campaign.name / "build" / self.device(device).arch
        return [build / id.split("/")[1] / "resources.csv" for id in self._ids(device)]

    def measuring_mb(self) -> int:
        """Return the memory that a measure job needs, in MB: for its largest problem and the
        libraries.
        """
        problems = (
            problem
            for kind in self.campaign.problem_sizes
            for element_type in self.campaign.element_types
            for problem in self.campaign.problems(kind, element_type)
        )
        return 3000 + max(problem.bytes // 10**6 for problem in problems)

    def compiling_threads(self, arch: str, kernel: str, cores: int) -> int:
        """Return a kernel's share of all cores, in proportion to its configurations, so that all
        compile jobs end at about the same time.
        """
        counts = {
            id: len(configurations) for id, configurations in self.campaign.configurations.items()
        }
        total = sum(
            count * (len(self.architectures) if id.startswith("cuda/") else 1)
            for id, count in counts.items()
        )
        return max(1, math.ceil(cores * counts[self.kernel(arch, kernel).id] / total))

    def measuring_threads(self, device: str, cores: int) -> int:
        """Return all cores for a CPU, so that nothing runs beside the measurement, and one core for
        a GPU.

        Compiling on all cores does not disturb a GPU (docs/evidence.md, `disturbance`). The profile
        of a cluster sets another number.
        """
        return 1 if self.device(device).kind == "cuda" else cores

    def request(
        self, resource: str, usual: Any, gpu: bool, device: str, arch: str, attempt: int
    ) -> Any:
        """Return how much of a resource a job requests: what its partition names, or the usual
        amount.

        A job has a device or an architecture. `gpu` says whether it runs on the device. Memory and
        minutes grow with every attempt.
        """
        partition = dict(self._partition_resources(device, arch))
        if gpu and not any(map(about_gpus, partition)):
            partition["gpu"] = int(self.device(device).kind == "cuda")
        amount = partition.get(resource, usual)
        return attempt * amount if resource in ("mem_mb", "runtime") else amount

    def _partition_resources(self, device: str, arch: str) -> Mapping[str, Any]:
        """Return the resources of the partition that a job must run in.

        It is the partition of the job's device or, to compile for a CPU, one that has this CPU.
        """
        partitions = self.campaign.partitions
        if device:
            return partitions[device].resources if device in partitions else {}
        return next(
            (partition.resources for partition in partitions.values() if partition.device == arch),
            {},
        )


def about_gpus(resource: str) -> bool:
    """Return whether a resource is a request for GPUs, whatever the engine calls it."""
    return "gpu" in resource or resource == "gres"
