"""Return the files that the rules of a campaign make and read, and the resources that its jobs
request.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ladder.core import places
from ladder.core.errors import InputError
from ladder.core.files import digest, write_whole
from ladder.devices.detect import DetectedDevice
from ladder.model.campaign import Campaign, Part, Share
from ladder.model.kernel import Kernel
from ladder.pipeline.datasets import Datasets
from ladder.storage.dataset_layout import CONFIRMED, JUDGED, TABLES, contents


@dataclass(frozen=True)
class Targets:
    """A campaign on its devices. Paths are relative to the folder that Snakemake runs in; those of
    kernels are absolute, and in plans as `places.find` takes them.
    """

    campaign: Campaign
    devices: Sequence[DetectedDevice]
    architectures: Sequence[str]
    """The architectures to compile CUDA kernels for."""
    located: Callable[[str], str] = str
    """As in `Campaigns`."""

    @cached_property
    def datasets(self) -> Datasets:
        """One dataset for each device, and for each version of a library on it."""
        kinds = {device.dataset: device.kind for device in self.devices}
        folder = f"results/{self.campaign.name}"
        return Datasets(
            folder, kinds, [f"{folder}/{slug}/{JUDGED}" for slug in kinds], self.campaign.formats
        )

    def device(self, dataset: str) -> DetectedDevice:
        """Return the device of a dataset."""
        return self._by_dataset[dataset]

    @cached_property
    def _by_dataset(self) -> dict[str, DetectedDevice]:
        return {device.dataset: device for device in self.devices}

    def everything(self) -> list[str]:
        """Return all that the campaign makes on this machine, except hardware counters. Snakemake
        makes a missing file again only if it is a target.
        """
        tables = [f"{name}.csv" for name in TABLES]
        slugs = [device.dataset for device in self.devices]
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
            f"{len(kernels)} CUDA kernels not compiled: no GPU found; "
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
            raise InputError("PATH: no ncu found; `counters` needs that of Nsight Compute")
        return figures

    def contents(self, device: str) -> str:
        """Return a digest of a dataset's kernels. File times say nothing certain about contents."""
        return digest([kernel.digest for kernel in self._kernels(device)])

    def machine(self, device: str) -> dict[str, str]:
        """Return what `detect.here` looks for on the machine of a job: a device's slug, and the
        version of its library, or its architecture and its partition.
        """
        partition = self.campaign.partitions.get(device)
        if partition is None:
            own = self.device(device)
            if own.library:
                names = ("slug", "library", "library_folder")
                return {name: getattr(own, name) for name in names}
            return {"slug": device}
        return {
            "slug": partition.device,
            "architecture": partition.architecture,
            "partition": device,
        }

    def plans(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the name of each job's plan, and what the job must do. Kernels are named by their
        digests, so a plan follows their contents.
        """
        for arch, kernel in self._compiling():
            configurations = [
                {
                    "element_type": configuration.element_type,
                    "label": configuration.label,
                    "objection": objection,
                }
                for configuration, objection in self.campaign.configurations[kernel.id]
            ]
            made = {
                "path": places.named(kernel.path),
                "digest": kernel.digest,
                "configurations": configurations,
            }
            yield f"compile-{arch}-{kernel.name}", made
        for slug, kind in self.datasets.kinds.items():
            machine, campaign = self.machine(slug), self.campaign
            for job, part in campaign.parts[kind].items():
                digests = [campaign.kernels[id].digest for id in _kernels_of(part)]
                plan = campaign.plan(kind, part.items)
                yield (
                    f"measure-{slug}-{job}",
                    {"machine": machine, "digest": digests, "plan": plan},
                )
            of_all = self.contents(slug)
            for suffix, block in campaign.blocks[kind].items():
                plan = campaign.confirmation(kind, block.items)
                yield (
                    f"confirm-{slug}{suffix}",
                    {"machine": machine, "digest": of_all, "plan": plan},
                )

    def plan(self, name: str) -> str:
        """Return the file of a job's plan, the job's input."""
        return f"{self.datasets.folder}/plans/{name}.json"

    def plan_digest(self, name: str) -> str | None:
        """Return a digest of a written plan; None if there is none of that name."""
        path = Path(self.located(self.plan(name)))
        return contents([path]) if path.exists() else None

    def write_plans(self) -> None:
        """Write the plans that have changed. Snakemake then reruns their jobs. Raises `InputError`
        where nothing can be written.
        """
        for name, plan in self.plans():
            path, text = Path(self.located(self.plan(name))), json.dumps(plan) + "\n"
            if not path.exists() or path.read_text() != text:
                write_whole(path, text.encode())

    def kernel(self, arch: str, name: str) -> Kernel:
        """Return the kernel with a name that is compiled for an architecture."""
        return self.campaign.kernels[f"{'cuda' if arch.startswith('sm_') else 'cpu'}/{name}"]

    def _kernels(self, device: str) -> list[Kernel]:
        """Return a dataset's kernels, sorted by name."""
        parts = self.campaign.parts[self.datasets.kinds[device]].values()
        ids = {id for part in parts for id in _kernels_of(part)}
        return [self.campaign.kernels[id] for id in sorted(ids)]

    def _build(self, arch: str) -> str:
        return f"{self.datasets.folder}/build/{arch}"

    def support(self, device: str) -> str:
        """Return the path of the pipeline's own device code, compiled."""
        return f"{self._build(self.device(device).arch)}/support.bin"

    def binaries(self, device: str, job: str) -> list[str]:
        """Return the compilers' reports on the kernels of a measure job."""
        ids = _kernels_of(self.campaign.parts[self.datasets.kinds[device]][job])
        return self._reports(device, [self.campaign.kernels[id] for id in ids])

    def resources(self, device: str) -> list[str]:
        """Return the compilers' reports on all configurations of a dataset."""
        return self._reports(device, self._kernels(device))

    def _reports(self, device: str, kernels: Sequence[Kernel]) -> list[str]:
        build = self._build(self.device(device).arch)
        return [f"{build}/{kernel.name}/resources.csv" for kernel in kernels]

    def headers(self, device: str) -> list[Path]:
        """Return the files of a dataset's kernels; their headers hold the models."""
        return [kernel.path for kernel in self._kernels(device)]

    def samples(self, device: str) -> list[str]:
        """Return the raw samples of a dataset."""
        jobs = self.campaign.parts[self.datasets.kinds[device]]
        return [f"{self.datasets.folder}/{device}/samples/{job}.parquet" for job in jobs]

    def confirmed(self, device: str) -> list[str]:
        """Return the raw samples of a dataset's confirmation; none if the campaign leaves it
        out.
        """
        blocks = self.campaign.blocks[self.datasets.kinds[device]]
        return [f"{self.datasets.folder}/{device}/{CONFIRMED}{end}.parquet" for end in blocks]

    @cached_property
    def measuring_mb(self) -> int:
        """The memory that a job on a device needs, in MB: for the largest problem, the libraries
        and the rows.
        """
        problems = (
            problem
            for kind in self.campaign.problem_sizes
            for element_type in self.campaign.element_types
            for problem in self.campaign.problems(kind, element_type)
        )
        return 3500 + max(problem.bytes for problem in problems) // 10**6

    @cached_property
    def sweep_minutes(self) -> int:
        """The minutes of a job of the sweep: an hour, and thrice the longest expected work."""
        return _minutes(self.campaign.parts)

    @cached_property
    def confirm_minutes(self) -> int:
        """The minutes of a job of the confirmation, likewise."""
        return _minutes(self.campaign.blocks)

    def measurements(self, device: str) -> int:
        """Return how many rows the sweep and the confirmation of a dataset have at most."""
        kind, campaign = self.datasets.kinds[device], self.campaign
        swept = (
            len(share["candidates"]) * len(campaign.problems(kind, element_type))
            for (of_kind, element_type), shares in campaign.shares.items()
            for share in shares
            if of_kind == kind
        )
        blocks = campaign.blocks[kind].values()
        problems = (problem for block in blocks for problem in block.items)
        return sum(swept) + sum(campaign.confirmations(kind, problem) for problem in problems)

    def tables_mb(self, device: str) -> int:
        """Return the memory that the job of a dataset's tables asks for, in MB: 1 KB for each row of
        the samples. It takes 5 KB for each of the largest kernel or part of the confirmation.
        """
        return 1000 + self.measurements(device) // 1000

    def tables_minutes(self, device: str) -> int:
        """Return how long that job may take, in minutes."""
        return 10 + self.measurements(device) // 20_000

    def compiling_threads(self, arch: str, kernel: str, cores: int) -> int:
        """Return a kernel's share of all cores, in proportion to its configurations, so that all
        compile jobs end at about the same time.
        """
        own = len(self.campaign.configurations[self.kernel(arch, kernel).id])
        return max(1, math.ceil(cores * own / self._compiled))

    @cached_property
    def _compiled(self) -> int:
        """The configurations to compile, for all architectures."""
        return sum(len(self.campaign.configurations[kernel.id]) for _, kernel in self._compiling())

    def measuring_threads(self, device: str, cores: int) -> int:
        """Return all cores for a CPU, so that nothing runs beside the measurement, and none for a
        GPU: compiling on all cores does not disturb it (docs/evidence.md, `disturbance`).

        Beside a CPU to measure, and in a job that is submitted, a GPU takes one core. The profile
        of a cluster sets another number.
        """
        if self.device(device).kind == "cpu":
            return cores
        return int(bool(self.campaign.partitions) or "cpu" in self.datasets.kinds.values())

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
        name = device or self._partition_of_cpu.get(arch, "")
        return self.campaign.partitions[name].resources if name in self.campaign.partitions else {}

    @cached_property
    def _partition_of_cpu(self) -> dict[str, str]:
        partitions = reversed(list(self.campaign.partitions.items()))
        return {partition.device: name for name, partition in partitions}


def _kernels_of(part: Part[Share]) -> list[str]:
    """Return the ids of the kernels of a part of the sweep."""
    return list(dict.fromkeys(share["kernel"] for share in part.items if share["kernel"]))


def _minutes(parts: Mapping[str, Mapping[str, Part[Any]]]) -> int:
    work = (part.us for of_kind in parts.values() for part in of_kind.values())
    return 60 + int(3 * max(work) / 6e7)


def about_gpus(resource: str) -> bool:
    """Return whether a resource is a request for GPUs, whatever the engine calls it."""
    return "gpu" in resource or resource == "gres"
