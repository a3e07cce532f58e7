"""How far published results repeat, on one machine and on others: `.venv/bin/ladder repeat`, which asks the committed data alone."""

from collections.abc import Mapping
from typing import Any

from ladder.study import Study


def found(measured: Mapping[str, Any]) -> str:
    """How often the stated intervals and limits cover the difference to another run, and how often what is alike is called different."""

    described = {
        "same_machine": ("another run on the same device is within the between-process interval", "covered"),
        "other_machine": ("one on another device within the repeat interval", "covered"),
        "held_out": ("and where that device took no part in making it", "covered"),
        "twins": ("twins with the same binary are called different", "called_different"),
        "null": ("pairs of the reference with itself are", "called_different"),
    }
    told = [
        f"{what}: {measured[name][share]:.1%} of {measured[name]['pairs']}"
        for name, (what, share) in described.items()
        if measured[name]["pairs"]
    ]
    machines = measured["machines"]
    return f"{len(measured['runs'])} runs on {machines} device{'s' * (machines > 1)}: {'; '.join(told)}"


STUDY = Study("repeat", "Do results repeat?", found, ".venv/bin/ladder repeat", "repeat-*.json")
