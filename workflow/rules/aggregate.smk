# Medians, intervals and ratios of a dataset. The dataset "redrawn" is made of committed samples.
def samples(wildcards):
    if wildcards.dataset == REDRAWN:
        return sorted((PUBLISHED / wildcards.device / "samples").glob("*.parquet"))
    return [
        f"results/{wildcards.dataset}/{wildcards.device}/samples/{job}.parquet"
        for job in CAMPAIGN.jobs(BY_SLUG[wildcards.device].kind)
    ]


def dataset_environment(wildcards):
    if wildcards.dataset == REDRAWN:
        return PUBLISHED / wildcards.device / "environment.json"
    return f"results/{wildcards.dataset}/{wildcards.device}/environment.json"


rule aggregate:
    input:
        samples=samples,
        environment=dataset_environment,
    output:
        summary=report(
            "results/{dataset}/{device}/summary.csv",
            category="{device}",
            caption="../report/summary.rst",
            labels={"table": "every measurement"},
        ),
        best=report(
            "results/{dataset}/{device}/best.csv",
            category="{device}",
            caption="../report/best.rst",
            labels={"table": "best configurations"},
        ),
        costs="results/{dataset}/{device}/costs.csv",
    params:
        code=sources.digest("tables"),
    script:
        "../scripts/aggregate.py"
