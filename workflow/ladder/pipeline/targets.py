"""What a campaign consists of: the files that its rules make and read, and what their jobs ask of a machine."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ladder.core.files import digest
from ladder.core.types import KINDS
from ladder.devices.detect import Device
from ladder.model.campaign import BASELINE_JOB, WIDTH, Campaign
from ladder.model.kernel import Kernel
from ladder.pipeline.checksums import _sha256
from ladder.storage.dataset_layout import CLAIMS, CONFIRMED, JUDGED, REDRAWN, SHOWN, together

TABLES = ("summary", "best", "pairs", "rounds", "references", "costs", "resources", "models")
"""The tables of a dataset."""


@dataclass(frozen=True)
class Targets:
    """A campaign on its devices. Paths are relative to the project's folder, those of published files and of kernels absolute."""

    campaign: Campaign
    devices: Sequence[Device]
    architectures: Sequence[str]
    """What CUDA kernels are compiled for."""
    kernels: Mapping[str, Kernel]
    """All kernels of the project, by id; the campaign's are some of them."""
    published: Path
    """The folder of the committed datasets."""

    def device(self, slug: str) -> Device:
        """The device of a slug."""
        return {device.slug: device for device in self.devices}[slug]

    def compiled(self) -> list[str]:
        """The resources of every chosen kernel on every architecture it is compiled for."""
        chosen = [(arch, "cuda") for arch in self.architectures]
        chosen += [(device.arch, "cpu") for device in self.devices if device.kind == "cpu"]
        return [
            f"results/{self.campaign.name}/build/{arch}/{kernel.name}/resources.csv"
            for arch, kind in chosen
            for kernel in self.campaign.kernels.values()
            if kernel.kind == kind
        ]

    def tables(self) -> list[str]:
        """Every file of the campaign's datasets but for what is drawn: what is missing is made again."""
        of = [(self.campaign.name, device.slug) for device in self.devices]
        return [
            *self.measured("environment.json", *(f"{name}.csv" for name in TABLES)),
            *(str(p) for one in of for p in (*self.samples(*one), *self.confirmed(*one))),
        ]

    def measured(self, *names: str, kind: str = "") -> list[str]:
        """Files of the campaign's datasets, of all or of those whose devices are of a kind."""
        devices = [device.slug for device in self.devices if device.kind == (kind or device.kind)]
        return [f"results/{self.campaign.name}/{slug}/{name}" for slug in devices for name in names]

    def compared(self) -> list[str]:
        """A figure for every kind that the campaign has several devices of."""
        several = [kind for kind in KINDS if len(self.measured("best.csv", kind=kind)) > 1]
        return [f"results/{self.campaign.name}/compared-{kind}.svg" for kind in several]

    def shown(self) -> list[str]:
        """The check that what is drawn from the dataset of which pages show figures is what was published, and its tables."""
        return self._redrawn(SHOWN) if (self.published / SHOWN / "environment.json").exists() else []

    def _redrawn(self, device: str) -> list[str]:
        return [f"results/{REDRAWN}/{device}/{name}" for name in ("drawn.checked", "figures")] + self._redrawn_tables(device)

    def _redrawn_tables(self, device: str) -> list[str]:
        return [f"results/{REDRAWN}/{device}/{name}.csv" for name in TABLES]

    def redrawn(self) -> list[str]:
        """The checks that what is drawn from all published datasets is what was published, and the page to look around in them."""
        folders = sorted(path.parent for path in self.published.glob("*/environment.json"))
        compared = [f"results/{REDRAWN}/compared.checked"] if together(self.published) else []
        page = [f"results/{REDRAWN}/index.html"] if folders else []
        repeats = [path for name in self.indexed(REDRAWN) if "/" in name for path in self._redrawn_tables(name)]
        return [name for folder in folders for name in self._redrawn(folder.name)] + repeats + compared + page

    def committed(self, device: str) -> list[Path]:
        """The files of a published dataset."""
        return sorted(path for path in (self.published / device).rglob("*") if path.is_file())

    def contents(self, dataset: str, device: str) -> str:
        """A digest of what a dataset is made from: its kernels, and where it is published, its files. Times of files say too little."""
        kernels = {kernel.path: kernel.digest for kernel in self.kernels.values()}
        digests = [kernels[path] for path in self.headers(dataset, device)]
        return digest([digests, _sha256(*self.committed(device)) if dataset == REDRAWN else ""])

    def contents_of(self, device: str, job: str) -> str:
        """The same of the kernel that a measure job is about; "" for the baselines."""
        name = job.split(".")[0]
        return "" if name == BASELINE_JOB else self.kernel(self.device(device).arch, name).digest

    def checked(self, dataset: str, device: str) -> list[str]:
        """What must be right of a dataset before anything is drawn from it: where it is published, its files and those of its repeats."""
        return [f"results/{REDRAWN}/{device.split('/')[0]}/data.checked"] if dataset == REDRAWN else []

    def drawn(self, device: str) -> list[str]:
        """What is drawn from a published dataset, the counters' figure where it has counters."""
        folder = f"results/{REDRAWN}/{device}"
        counted = (self.published / device / "counters.csv").exists()
        return [f"{folder}/figures", *([f"{folder}/counters.svg"] if counted else [])]

    def indexed(self, dataset: str) -> list[str]:
        """The datasets that the page of a campaign, or of all that is published, shows: of these with their repeats, `dataset/run`."""
        if dataset == REDRAWN:
            names = [path.parent.relative_to(self.published).as_posix() for path in self.published.rglob("environment.json")]
            return sorted(names, key=lambda name: (name.split("/")[0] != SHOWN, name))
        return [device.slug for device in self.devices]

    def claims(self, dataset: str) -> list[Path]:
        """What the datasets of a campaign, or all that is published, say to the claims."""
        if dataset == REDRAWN:
            return list(self.published.glob(JUDGED))
        return [Path(path) for path in self.measured(JUDGED)]

    def compared_devices(self, dataset: str, kind: str) -> list[str]:
        """The devices of a kind that are drawn side by side, published ones or those of the campaign."""
        if dataset == REDRAWN:
            return [folder.name for folder in together(self.published).get(kind, [])]
        return [device.slug for device in self.devices if device.kind == kind]

    def compared_published(self) -> list[str]:
        """The figures of published datasets side by side."""
        return [f"results/{REDRAWN}/compared-{kind}.svg" for kind in together(self.published)]

    def claimed(self) -> list[Path]:
        """What datasets are held against: the claims, what was published of them, and how far runs differ."""
        return [self.published.parents[1] / CLAIMS, *sorted([*self.published.glob(JUDGED), *self.published.glob("repeat-*.csv")])]

    def published_data(self) -> list[Path]:
        """The files of all that is published, datasets and answers to studies, but for what is drawn and what is said to the claims."""
        files = (path for suffix in ("parquet", "json", "csv") for path in self.published.rglob(f"*.{suffix}"))
        return sorted(path for path in files if path.name != JUDGED)

    def published_contents(self) -> str:
        """A digest of them, and of where they lie. Times of files say too little."""
        data = self.published_data()
        return digest([[path.relative_to(self.published).as_posix() for path in data], _sha256(*data)])

    def drawing(self, dataset: str) -> dict[str, Any]:
        """The width in inches, and the formats besides SVG, of a dataset's figures; published ones are drawn the same everywhere."""
        if dataset == REDRAWN:
            return {"width": WIDTH, "formats": []}
        return {"width": self.campaign.width, "formats": self.campaign.formats}

    def kernel(self, arch: str, name: str) -> Kernel:
        """The kernel that is compiled for an architecture under a name."""
        return self.campaign.kernels[f"{'cuda' if arch.startswith('sm_') else 'cpu'}/{name}"]

    def support(self, dataset: str, device: str) -> str:
        """What the pipeline itself runs on a device, compiled."""
        return f"results/{dataset}/build/{self.device(device).arch}/support.bin"

    def binaries(self, dataset: str, device: str, job: str) -> str | list[str]:
        """The resources of the kernel that a measure job is about; none for the baselines."""
        kernel = job.split(".")[0]
        if kernel == BASELINE_JOB:
            return []
        return f"results/{dataset}/build/{self.device(device).arch}/{kernel}/resources.csv"

    def _folder(self, dataset: str, device: str) -> Path:
        """Where lies what was measured of a dataset."""
        return self.published / device if dataset == REDRAWN else Path("results") / dataset / device

    def environment(self, dataset: str, device: str) -> Path:
        """Where and by what a dataset was measured."""
        return self._folder(dataset, device) / "environment.json"

    def counters(self, dataset: str, device: str) -> Path:
        """The hardware counters of a dataset."""
        return self._folder(dataset, device) / "counters.csv"

    def samples(self, dataset: str, device: str) -> list[Path]:
        """The raw samples of a dataset."""
        folder = self._folder(dataset, device) / "samples"
        if dataset == REDRAWN:
            return sorted(folder.glob("*.parquet"))
        return [folder / f"{job}.parquet" for job in self.campaign.jobs(self.device(device).kind)]

    def confirmed(self, dataset: str, device: str) -> list[Path]:
        """The raw samples of a dataset's confirmation; none where it was left out."""
        path = self._folder(dataset, device) / f"{CONFIRMED}.parquet"
        return [path] if (path.exists() if dataset == REDRAWN else self.campaign.confirm["cuda"].processes) else []

    def _names(self, dataset: str, device: str) -> list[str]:
        """The names of the kernels of a dataset."""
        return sorted({path.name.split(".")[0] for path in self.samples(dataset, device)} - {BASELINE_JOB})

    def headers(self, dataset: str, device: str) -> list[Path]:
        """The files of a dataset's kernels, those that are still there: the models are in their headers."""
        published = "cpu" if device.startswith("cpu-") else "cuda"
        kind = published if dataset == REDRAWN else self.device(device).kind
        ids = [f"{kind}/{name}" for name in self._names(dataset, device)]
        return [self.kernels[id].path for id in ids if id in self.kernels]

    def resources(self, dataset: str, device: str) -> list[Path]:
        """What the compiler said of every configuration of a dataset."""
        if dataset == REDRAWN:
            return [self.published / device / "resources.csv"]
        build = Path("results") / dataset / "build" / self.device(device).arch
        return [build / name / "resources.csv" for name in self._names(dataset, device)]

    def measuring_mb(self) -> int:
        """Memory that a measure job needs, in MB: that of its largest problem, and of the libraries."""
        problems = (
            problem
            for kind in self.campaign.problem_sizes
            for element_type in self.campaign.element_types
            for problem in self.campaign.problems(kind, element_type)
        )
        return 3000 + max(problem.bytes // 10**6 for problem in problems)

    def compiling_threads(self, arch: str, kernel: str, cores: int) -> int:
        """A kernel's share of all cores, by its share of all configurations to compile: then all jobs end at about the same time."""
        counts = {id: len(configurations) for id, configurations in self.campaign.configurations.items()}
        total = sum(count * (len(self.architectures) if id.startswith("cuda/") else 1) for id, count in counts.items())
        return max(1, math.ceil(cores * counts[self.kernel(arch, kernel).id] / total))

    def measuring_threads(self, device: str, cores: int) -> int:
        """All cores of a CPU, so that nothing runs beside the measurement. One for a GPU, which compiling on all cores does not disturb
        (studies/disturbance.py). A cluster's profile says how many instead.
        """
        return 1 if self.device(device).kind == "cuda" else cores

    def requests(self, gpu: bool, **usual: Any) -> dict[str, Callable[..., Any]]:
        """What a cluster is asked for: the usual, or what the job's partition says, memory and minutes growing with every attempt.

        A function of Snakemake's wildcards, threads and attempt for every resource; so may the values of `usual` be, of threads. `gpu` says
        whether the job runs on the device; what it does not need is not asked for.
        """

        def request(name: str) -> Callable[..., Any]:
            def value(wildcards: Any, threads: int, attempt: int) -> Any:
                device = getattr(wildcards, "device", "")
                said = dict(self._partition_resources(device, getattr(wildcards, "arch", "")))
                if gpu and not any(map(_about_gpus, said)):
                    said["gpu"] = int(self.device(device).kind == "cuda")
                found: Any = said.get(name, usual.get(name))
                found = found(threads) if callable(found) else found
                return attempt * found if name in ("mem_mb", "runtime") else found

            return value

        said = {name for partition in self.campaign.partitions.values() for name in partition.resources}
        names = {"gpu", *usual, *said} if gpu else {*usual, *said}
        return {name: request(name) for name in names if gpu or not _about_gpus(name)}

    def _partition_resources(self, device: str, arch: str) -> Mapping[str, Any]:
        """What the partition asks for that a job has to run in: its dataset's, or for code for a CPU, compiled on it, one that has it."""
        partitions = self.campaign.partitions
        if device:
            return partitions[device].resources if device in partitions else {}
        return next((partition.resources for partition in partitions.values() if partition.device == arch), {})


def _about_gpus(resource: str) -> bool:
    """Whether a resource is a request for GPUs, in the words of one engine or another."""
    return "gpu" in resource or resource == "gres"
