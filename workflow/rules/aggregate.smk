# The tables of a measured dataset: medians, intervals, ratios and models.
rule aggregate:
    input:
        samples=of("samples"),
        confirmed=of("confirmed"),
        environment="results/{dataset}/{device}/environment.json",
        resources=of("resources"),
        kernels=of("headers"),
    output:
        summary=report(
            "results/{dataset}/{device}/summary.csv",
            category="{dataset}",
            subcategory="{device}",
            caption="../report/summary.rst",
            labels={"table": "every measurement"},
        ),
        best=report(
            "results/{dataset}/{device}/best.csv",
            category="{dataset}",
            subcategory="{device}",
            caption="../report/best.rst",
            labels={"table": "best configurations"},
        ),
        pairs=report(
            "results/{dataset}/{device}/pairs.csv",
            category="{dataset}",
            subcategory="{device}",
            caption="../report/pairs.rst",
            labels={"table": "who is faster than whom"},
        ),
        rounds="results/{dataset}/{device}/rounds.csv",
        references="results/{dataset}/{device}/references.csv",
        costs="results/{dataset}/{device}/costs.csv",
        resources="results/{dataset}/{device}/resources.csv",
        models=report(
            "results/{dataset}/{device}/models.csv",
            category="{dataset}",
            subcategory="{device}",
            caption="../report/models.rst",
            labels={"table": "models"},
        ),
    log:
        "results/{dataset}/logs/aggregate-{device}.log",
    resources:
        mem_mb=lambda wildcards, attempt: attempt * of("tables_mb")(wildcards),
        runtime=lambda wildcards, attempt: attempt * of("tables_minutes")(wildcards),
    params:
        contents=of("contents"),
        code=code_digest.digest("analysis.dataset"),
    script:
        "../scripts/aggregate.py"
