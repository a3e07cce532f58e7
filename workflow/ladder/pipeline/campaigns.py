"""Load the campaigns that a run may need. Each is loaded and checked as a whole when a target first
needs it.

Snakemake knows its targets only after it has read the rules. So the rules ask for a campaign in
functions of wildcards, and anything that only one target needs is checked only for that target.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ladder.core import places
from ladder.core.errors import InputError, one_of
from ladder.core.files import read_json
from ladder.devices import detect
from ladder.devices.detect import DetectedDevice
from ladder.model import campaign_file
from ladder.model.campaign import Campaign
from ladder.model.kernel import Kernel
from ladder.model.kernel_file import everywhere, files_of, here
from ladder.pipeline.targets import Targets, about_gpus
from ladder.storage.dataset_layout import JUDGED
from ladder.storage.published_index import featured, kernel_ids

Read = tuple[dict[str, Any], str]
"""The data of a campaign, and the name that messages give to its file."""

REPRODUCE = "reproduce"
"""The campaign of `snakemake reproduce`, unless the command line names another."""


@dataclass(frozen=True)
class Campaigns:
    """The campaign that the command line names, or the default one, and that of `snakemake
    reproduce`.
    """

    config_files: Sequence[Path] | None
    """The files of --configfile; None in a module, whose configuration is another workflow's."""
    config: Mapping[str, Any]
    """Snakemake's configuration, with the values of --config."""
    architectures: Callable[
        [Campaign, Sequence[DetectedDevice], Sequence[DetectedDevice]], list[str]
    ]
    """Returns the architectures for CUDA kernels, from a campaign, its devices and the GPUs of this
    machine.
    """
    submits: Callable[[], bool]
    """Returns whether jobs are submitted to other machines."""
    is_main: bool
    """Whether this process plans the jobs. Then an unusable kernel file is an error in a campaign
    that chooses it, and plans are written.
    """
    located: Callable[[str], str] = str
    """Returns where Snakemake has a path of a rule, which in a module may have a prefix."""
    _targets: dict[str, Targets] = field(default_factory=dict)

    @cached_property
    def _read_kernels(self) -> tuple[dict[str, Kernel], dict[str, InputError]]:
        refused: dict[str, InputError] = {}
        return everywhere(refused), refused

    @property
    def kernels(self) -> dict[str, Kernel]:
        """All usable kernels of the project and of home, by id."""
        return self._read_kernels[0]

    @property
    def refused(self) -> dict[str, InputError]:
        """Why kernel files are unusable, by kernel."""
        return self._read_kernels[1]

    def _read(self, config: Mapping[str, Any]) -> Read:
        data, source = campaign_file.read(self.config_files, config)
        return (self._narrowed_to_claim(data, source) if "claim" in data else data), source

    def _published_ids(self, source: str, element_types: Sequence[str]) -> list[str]:
        """Return the ids of the rungs published in these element types that are here. Rivals need
        more than `make` installs, and no claim is about them. Raises `InputError` if none is.
        """
        folder = places.published()
        published = here().intersection(kernel_ids(featured(folder).values(), element_types))
        ids = published - {id for id, kernel in self.kernels.items() if kernel.rival}
        if not ids:
            raise InputError(
                f"{source}: kernels: got published, but {folder} has none of the "
                "kernels that are here"
            )
        return sorted(ids)

    def _narrowed_to_claim(self, data: Mapping[str, Any], source: str) -> dict[str, Any]:
        """Return the data of a campaign with only those kernels and problems that its `claim` is
        about.

        Raises `InputError` for an unknown claim.
        """
        claim, path = data["claim"], places.published() / JUDGED
        entries = read_json(path) if path.exists() else []
        about = [entry for entry in entries if f"{entry['id']}:".startswith(f"{claim}:")]
        if not about:
            known = list(dict.fromkeys(entry["id"].split(":")[0] for entry in entries))
            raise InputError(f"{source}: claim: got {claim!r}; {one_of(claim, known)}")
        names = {name for entry in about for name in entry["key"]}
        kernels = sorted(id for id in here() if id.split("/")[1] in names)
        sizes = sorted(
            [int(size) for size in name.split("x")]
            for name in names
            if re.fullmatch(r"\d+(x\d+x\d+)?", name)
        )
        narrowed = {**data, "campaign": campaign_file.narrowed(data["campaign"], [claim])}
        # a claim about all rows together names no kernel and no problem
        if kernels:
            narrowed["kernels"] = kernels
        if sizes:
            problems = [size * (3 // len(size)) for size in sizes]
            narrowed["problems"] = dict.fromkeys(data["problems"], problems)
        return narrowed

    @cached_property
    def _named(self) -> Read:
        return self._read(self.config)

    @cached_property
    def _reproduce(self) -> Read:
        return self._read({"campaign": REPRODUCE, **self.config})

    @property
    def name(self) -> str:
        """The name of the campaign that the command line asks for."""
        name: str = self._named[0]["campaign"]
        return name

    @property
    def reproduce_name(self) -> str:
        """The name of the campaign of `snakemake reproduce`, even if that campaign cannot be
        used.
        """
        try:
            name: str = self._reproduce[0]["campaign"]
        except InputError:
            return REPRODUCE
        return name

    @property
    def source(self) -> str:
        """The name that messages give to the file of the campaign that the command line asks
        for.
        """
        return self._named[1]

    @cached_property
    def data(self) -> dict[str, dict[str, Any]]:
        """The data of each campaign, by name."""
        data = {}
        with suppress(InputError):  # an error only for a run that asks for its targets
            data[self.reproduce_name] = self._reproduce[0]
        return data | {self.name: self._named[0]}

    def targets(self, name: str) -> Targets:
        """Return the targets of a campaign, after checking it as a whole. Raises `InputError` if it
        cannot be used.
        """
        if name not in self._targets:
            self._targets[name] = self._load(name)
        return self._targets[name]

    def _load(self, name: str) -> Targets:
        if name == self.name:
            data, source = self._named
        elif name == self.reproduce_name:
            data, source = self._reproduce
        else:
            raise InputError(
                f"results/{name}: got no campaign of this name; expected results/{self.name}, or "
                f"`--config campaign={name}`"
            )
        patterns = data.get("kernels", "all")
        if patterns == "published":
            patterns = self._published_ids(source, data.get("element_types", ["float32"]))
            data = data | {"kernels": patterns}
        named = map(files_of, patterns) if patterns != "all" else ()
        files = [file for files in named for file in files or ()]
        kernels = everywhere(self.refused, files) if files else self.kernels
        campaign = campaign_file.load(data, source, kernels, self.refused if self.is_main else {})
        gpus = self.gpus(campaign)
        devices = detect.resolve(campaign, gpus, detect.detect_cpu())
        if self.submits() and not campaign.partitions:
            raise InputError(
                f"{source}: partitions: missing; submitted jobs run on other machines. Expected the "
                "cluster's, such as {a100: {device: nvidia-a100-sxm4-80gb, architecture: sm_80, "
                "resources: {slurm_partition: a100}}}; "
                "config/README.md explains them"
            )
        architectures = self.architectures(campaign, devices, gpus)
        targets = Targets(campaign, devices, architectures, self.located)
        if self.is_main:
            targets.write_plans()
        return targets

    def gpus(self, campaign: Campaign) -> list[DetectedDevice]:
        """Return the GPUs of this machine. Raises `InputError` if its driver does not work, unless
        the campaign measures no GPU here.
        """
        try:
            return detect.detect_gpus()
        except InputError:
            if campaign.partitions or all(it.startswith("cpu") for it in campaign.devices):
                return []
            raise

    def requests(self, gpu: bool, **usual: Any) -> dict[str, Callable[..., Any]]:
        """Return a job's resource requests: functions of Snakemake's wildcards, threads and
        attempt, by resource.

        The resources are the `usual` ones and those that partitions name. A job does not request a
        resource for which neither has an amount. A usual amount may be a function of the targets
        and the threads. `gpu` says whether the job runs on the device: it then also requests to be
        `measuring`, which profiles/default limits.
        """
        usual |= {"measuring": 1} if gpu else {}

        def request(resource: str) -> Callable[..., Any]:
            def amount(wildcards: Any, threads: int, attempt: int) -> Any:
                targets, own = self.targets(wildcards.dataset), usual.get(resource)
                own = own(targets, threads) if callable(own) else own
                device, arch = (getattr(wildcards, name, "") for name in ("device", "arch"))
                return targets.request(resource, own, gpu, device, arch, attempt)

            return amount

        partitions = [
            partition
            for data in self.data.values()
            for partition in data.get("partitions", {}).values()
        ]
        named = [name for partition in partitions for name in partition.get("resources", {})]
        names = {*usual, *named, *(["gpu"] if gpu else [])}
        return {name: request(name) for name in sorted(names) if gpu or not about_gpus(name)}
