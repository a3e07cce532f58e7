"""How far published results repeat, on one machine and on others: `.venv/bin/ladder repeat`, which asks the committed data alone."""

from collections.abc import Mapping
from typing import Any

from ladder.claims.study import Study


def found(measured: Mapping[str, Any]) -> str:
    """How often the stated intervals and limits cover the difference to another run, and how often what is alike is called different."""

    described = {
        "same_machine": ("runs on one device differ by no more than both between-process intervals allow", "covered"),
        "same_held_out": ("and than the limit that other devices' runs made", "covered"),
        "other_machine": ("runs on two devices by no more than the limit, which they made too", "covered"),
        "held_out": ("and than one that one of the two took no part in making", "covered"),
        "twins": ("twins with the same binary are called different", "called_different"),
        "null": ("pairs of the reference with itself are", "called_different"),
    }
    least = {"same_machine": "of problems at {of}", "held_out": "of devices {of:.12}"}
    told = [
        f"{what}: {measured[name][share]:.1%} of {measured[name]['pairs']}"
        + (f" (least {least[name].format(**one)}: {one['covered']:.1%})" if (one := measured[name].get("least")) else "")
        + (
            f" ({measured[name]['interval_leaves_out_1']:.1%} have an interval that leaves out 1, by less than the margin)"
            if measured[name].get("interval_leaves_out_1")
            else ""
        )
        for name, (what, share) in described.items()
        if measured[name]["pairs"]
    ]
    machines = measured["machines"]
    return f"{len(measured['runs'])} runs on {machines} device{'s' * (machines > 1)}: {'; '.join(told)}"


STUDY = Study("repeat", "Do results repeat?", found, ".venv/bin/ladder repeat", "repeat-*.json")
