"""How far published results repeat, on one machine and on others: `.venv/bin/ladder repeat`, which asks the committed data alone."""

from collections.abc import Mapping
from typing import Any

from ladder.study import Study


def found(measured: Mapping[str, Any]) -> str:
    """How often the stated intervals and limits cover the difference to another run, and how often what is alike is called different."""

    def covered(what: str) -> str:
        part = measured[what]
        return f"{part['covered']:.1%} of {part['pairs']}" if part["pairs"] else "not measured yet"

    def called(what: str) -> str:
        part = measured[what]
        return f"{part['called_different']:.1%} of {part['pairs']}" if part["pairs"] else "not measured yet"

    return (
        f"{len(measured['runs'])} runs on {measured['machines']} devices: another run on the same device is within the between-process "
        f"interval: {covered('same_machine')}; one on another device within the repeat interval: {covered('other_machine')}, and where that "
        f"device took no part in making it: {covered('held_out')}; called different were {called('twins')} twins with the same binary "
        f"and {called('null')} pairs of the reference with itself"
    )


STUDY = Study("repeat", "Do results repeat?", found, ".venv/bin/ladder repeat", "repeat-*.json")
