"""The campaign `laptop` takes less than five minutes on a card of a tenth of an H100's speed, by
its budgets and what an H100 took.
"""

import yaml
from ladder.core.places import HOME
from ladder.model import campaign_file
from ladder.model.kernel_file import discover
from ladder.storage.dataset_layout import PUBLISHED
from ladder.storage.published_index import featured

SLOWER = 10
CORES = 4
"""That compile."""
AROUND = 60
"""Seconds allowed for all that neither compiles nor measures: Snakemake, tables, figures."""


def estimate(campaign, dataset):
    """Seconds of the campaign by parts."""
    costs = dataset.costs.set_index("job")
    compiled = dataset.resources["seconds"].astype(float).groupby(dataset.resources["kernel"]).max()
    idle = costs["wall_seconds"] - costs["busy_seconds"]
    names = {id: kernel.name for id, kernel in campaign.kernels.items()}
    counts = {id: len(configurations) for id, configurations in campaign.configurations.items()}
    jobs = ["baselines.float32", *(f"{name}.float32" for name in names.values())]
    limits, confirm = campaign.limits, campaign.confirm["cuda"]
    problems = len(campaign.problems("cuda", "float32"))
    # a candidate and the reference beside it, as long as they may take
    finalists = 2 * problems * len(jobs) * confirm.finalists
    # the published run had as many processes as its `children`
    process = idle["confirmed"] / costs.loc["confirmed", "children"]
    return {
        "around": AROUND,
        "compile": sum(counts[id] * compiled[name] for id, name in names.items()) / CORES,
        # the host's work for each job, and the gauntlet as if the device made all of it
        "jobs": idle[jobs].sum() + SLOWER * costs.loc[jobs, "gauntlet_seconds"].sum(),
        "sampled": 2 * problems * sum(counts.values()) * limits.max_seconds,
        "confirmed": confirm.processes * (finalists * confirm.seconds + process),
    }


def test_the_laptop_campaign_takes_less_than_five_minutes(opened, published):
    campaign = campaign_file.load(
        yaml.safe_load((HOME / "config" / "laptop.yaml").read_text()), "laptop.yaml", discover(HOME)
    )
    parts = estimate(campaign, opened(featured(HOME / PUBLISHED)["nvidia-h100-80gb-hbm3/default"]))
    assert sum(parts.values()) < 300, parts
