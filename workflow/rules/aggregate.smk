# Medians, intervals and ratios of a dataset, and what the models say of it.
rule aggregate:
    input:
        samples=samples,
        environment=dataset_environment,
        resources=dataset_resources,
        kernels=dataset_kernels,
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
        resources="results/{dataset}/{device}/resources.csv",
        models=report(
            "results/{dataset}/{device}/models.csv",
            category="{device}",
            caption="../report/models.rst",
            labels={"table": "models"},
        ),
    log:
        "results/{dataset}/logs/aggregate-{device}.log",
    params:
        code=sources.digest("models"),
    script:
        "../scripts/aggregate.py"
