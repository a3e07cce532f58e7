# Medians, intervals and ratios of a dataset.
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
    log:
        "results/{dataset}/logs/aggregate-{device}.log",
    params:
        code=sources.digest("tables"),
    script:
        "../scripts/aggregate.py"
