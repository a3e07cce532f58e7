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
from ladder.pipeline.datasets import Datasets
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

    @cached_property
    def datasets(self) -> Datasets:
        """One dataset for each device."""
        kinds = {device.slug: device.kind for device in self.devices}
        folder = f"results/{self.campaign.name}"
        return Datasets(
            folder,
            kinds,
            {kind: [slug for slug in kinds if kinds[slug] == kind] for kind in KINDS},
            [f"{folder}/{slug}/{JUDGED}" for slug in kinds],
            self.campaign.formats,
        )

    def device(self, slug: str) -> DetectedDevice:
        """Return the device with a slug."""
        return {device.slug: device for device in self.devices}[slug]

    def everything(self) -> list[str]:
        """Return all that the campaign makes on this machine, except hardware counters. Snakemake
        makes a missing file again only if it is a target.
        """
        tables = [f"{name}.csv" for name in TABLES]
        slugs = [device.slug for device in self.devices]
        return [
            *(
                f"{self._build(arch)}/{kernel.name}/resources.csv"
                for arch, kernel in self._compiling()
            ),
            *(path for slug in slugs for path in (*self.samples(slug), *self.confirmed(slug))),
            *self.datasets.files("environment.json", *tables, "figures", JUDGED),
            *self.datasets.comparisons(),
            *self.datasets.page(),
        ]

    def _compiling(self) -> list[tuple[str, Kernel]]:
        """Return each chosen kernel with every architecture that it is compiled for."""
        cpus = [device.arch for device in self.devices if device.kind == "cpu"]
        archs = {"cuda": self.architectures, "cpu": cpus}
        return [
            (arch, kernel)
            for kernel in self.campaign.kernels.values()
            for arch in archs[kernel.kind]
        ]

    def uncompiled(self) -> str:
        """Return a line on CUDA kernels that the campaign compiles for no architecture, or ""."""
        kernels = [kernel for kernel in self.campaign.kernels.values() if kernel.kind == "cuda"]
        if self.architectures or not kernels:
            return ""
        return (
            f"not compiled, for want of a GPU: {len(kernels)} CUDA kernel(s); "
            "`--config 'architectures=[sm_90]'` compiles them"
        )

    def counted(self, ncu: bool) -> list[str]:
        """Return the figures of hardware counters; `ncu` says whether Nsight Compute is installed.

        Raises `InputError` if nothing can be counted.
        """
        figures = self.datasets.files("counters.svg", kind="cuda")
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

    def contents(self, device: str) -> str:
        """Return a digest of a dataset's kernels. File times say nothing certain about contents."""
        return digest([kernel.digest for kernel in self._kernels(device)])

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
        for slug, kind in self.datasets.kinds.items():
            machine = self.machine(slug)
            for job in self.campaign.jobs(kind):
                plan = self.campaign.plan(kind, job)
                contents = self.campaign.kernels[plan["kernel"]].digest if plan["kernel"] else ""
                name = f"measure-{slug}-{job}"
                plans[name] = {"machine": machine, "digest": contents, "plan": plan}
            plan, contents = self.campaign.confirmation(kind), self.contents(slug)
            plans[f"confirm-{slug}"] = {"machine": machine, "digest": contents, "plan": plan}
        return plans

    def plan(self, name: str) -> Path:
        """Return the file of a job's plan, the job's input."""
        return Path(self.datasets.folder) / "plans" / f"{name}.json"

    def write_plans(self) -> None:
        """Write the plans that have changed. Snakemake then reruns their jobs. Raises `InputError`
        where nothing can be written.
        """
        for name, plan in self.plans.items():
            path, text = self.plan(name), json.dumps(plan, indent=1) + "\n"
            try:
                if not path.exists() or path.read_text() != text:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_whole(path, text.encode())
            except OSError as error:
                raise InputError(
                    f"{path}: {error.strerror}; expected a file that can be written"
                ) from None

    def kernel(self, arch: str, name: str) -> Kernel:
        """Return the kernel with a name that is compiled for an architecture."""
        return self.campaign.kernels[f"{'cuda' if arch.startswith('sm_') else 'cpu'}/{name}"]

    def _kernels(self, device: str) -> list[Kernel]:
        """Return a dataset's kernels, sorted by name."""
        kind = self.datasets.kinds[device]
        names = {job.split(".")[0] for job in self.campaign.jobs(kind)} - {BASELINE_JOB}
        return [self.campaign.kernels[f"{kind}/{name}"] for name in sorted(names)]

    def _build(self, arch: str) -> str:
        return f"{self.datasets.folder}/build/{arch}"

    def support(self, device: str) -> str:
        """Return the path of the pipeline's own device code, compiled."""
        return f"{self._build(self.device(device).arch)}/support.bin"

    def binaries(self, device: str, job: str) -> list[str]:
        """Return the resources of a measure job's kernel; none for the baselines."""
        kernel = job.split(".")[0]
        build = self._build(self.device(device).arch)
        return [] if kernel == BASELINE_JOB else [f"{build}/{kernel}/resources.csv"]

    def resources(self, device: str) -> list[str]:
        """Return the compilers' reports on all configurations of a dataset."""
        build = self._build(self.device(device).arch)
        return [f"{build}/{kernel.name}/resources.csv" for kernel in self._kernels(device)]

    def headers(self, device: str) -> list[Path]:
        """Return the files of a dataset's kernels; their headers hold the models."""
        return [kernel.path for kernel in self._kernels(device)]

    def samples(self, device: str) -> list[str]:
        """Return the raw samples of a dataset."""
        jobs = self.campaign.jobs(self.datasets.kinds[device])
        return [f"{self.datasets.folder}/{device}/samples/{job}.parquet" for job in jobs]

    def confirmed(self, device: str) -> list[str]:
        """Return the raw samples of a dataset's confirmation; none if the campaign leaves it
        out.
        """
        if not self.campaign.confirm["cuda"].processes:
            return []
        return [f"{self.datasets.folder}/{device}/{CONFIRMED}.parquet"]

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
        configurations = self.campaign.configurations
        total = sum(len(configurations[compiled.id]) for _, compiled in self._compiling())
        return max(1, math.ceil(cores * len(configurations[self.kernel(arch, kernel).id]) / total))

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
        for name, partition in self.campaign.partitions.items():
            if name == device or (not device and partition.device == arch):
                return partition.resources
        return {}


def about_gpus(resource: str) -> bool:
    """Return whether a resource is a request for GPUs, whatever the engine calls it."""
    return "gpu" in resource or resource == "gres"
