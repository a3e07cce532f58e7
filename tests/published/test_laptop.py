"""The campaign `laptop` takes less than five minutes on a card of a tenth of an H100's speed, by
its budgets and what an H100 took.
"""

import math

import yaml
from ladder.core.files import ROOT
from ladder.measuring.sweep import GROUP
from ladder.measuring.timing import WARM_MOST
from ladder.model import campaign_file
from ladder.model.kernel_file import discover
from ladder.storage.dataset_layout import PUBLISHED
from ladder.storage.published_index import featured

SLOWER = 10
CORES = 4
"""That compile."""
WARM_SECONDS = 0.05
"""Of a GPU's warm-up (`devices/cuda.py`)."""
AROUND = 60
"""Seconds allowed for all that neither compiles nor measures: Snakemake, tables, figures."""


def spent(us, limits, fewest, most, seconds):
    """Microseconds that the samples of a candidate take at most."""
    sample = max(us, limits.sample_us)
    return min(most * sample, max(fewest * sample, seconds * 1e6 + sample))


def estimate(campaign, dataset):
    """Seconds of the campaign by parts."""
    costs, warm = dataset.costs.set_index("job"), dataset.summary.query("state == 'warm'")
    times = warm.groupby(["kernel", "problem"])["median_us"].max()  # of the slowest configuration
    compiled = dataset.resources["seconds"].astype(float).groupby(dataset.resources["kernel"]).max()
    idle = costs["wall_seconds"] - costs["busy_seconds"]
    names = {id: kernel.name for id, kernel in campaign.kernels.items()} | {"": "cublas"}
    counts = {id: len(configurations) for id, configurations in campaign.configurations.items()} | {
        "": 1
    }
    problems = [problem.label for problem in campaign.problems("cuda", "float32")]
    jobs = [f"{name}.float32" for id, name in names.items() if id] + ["baselines.float32"]
    parts = {
        "around": AROUND,
        "compile": sum(counts[id] * compiled[names[id]] for id in counts if id) / CORES,
    }
    # the host's work for each job, and the gauntlet as if the device made all of it
    parts["jobs"] = idle[jobs].sum() + SLOWER * costs.loc[jobs, "gauntlet_seconds"].sum()
    limits, confirm = campaign.limits, campaign.confirm["cuda"]
    sampled = warming = confirmed = 0.0
    for problem in problems:
        reference = SLOWER * times["cublas", problem]
        for id, name in names.items():
            us = SLOWER * times[name, problem]
            own = spent(us, limits, limits.min_samples, limits.max_samples, limits.max_seconds)
            sampled += counts[id] * (own + limits.max_samples * max(reference, limits.sample_us))
            warming += (
                math.ceil(counts[id] / GROUP) * (WARM_MOST * WARM_SECONDS * 1e6)
                + 2 * counts[id] * us
            )
            finalists = min(confirm.finalists, counts[id])
            confirmed += finalists * spent(us, limits, 1, confirm.rounds, confirm.seconds) + 2 * us
        confirmed += (
            confirm.rounds * max(reference, limits.sample_us) + WARM_MOST * WARM_SECONDS * 1e6
        )
    parts |= {
        "sampled": sampled / 1e6,
        "warming": warming / 1e6,
        "confirmed": confirm.processes * confirmed / 1e6,
    }
    # a process of the confirmation: the published run had as many as its `children`
    parts["processes"] = confirm.processes * idle["confirmed"] / costs.loc["confirmed", "children"]
    return parts


def test_the_laptop_campaign_takes_less_than_five_minutes(opened, published):
    campaign = campaign_file.load(
        yaml.safe_load((ROOT / "config" / "laptop.yaml").read_text()), "laptop.yaml", discover(ROOT)
    )
    parts = estimate(campaign, opened(featured(ROOT / PUBLISHED)["nvidia-h100-80gb-hbm3/default"]))
    assert sum(parts.values()) < 300, parts
