# All figures of a dataset in one job: importing seaborn takes longer than drawing.
rule figures:
    input:
        summary="results/{dataset}/{device}/summary.csv",
        best="results/{dataset}/{device}/best.csv",
        models="results/{dataset}/{device}/models.csv",
        environment=dataset_environment,
    output:
        report(
            directory("results/{dataset}/{device}/figures"),
            patterns=["{figure}.svg"],
            category="{device}",
            caption="../report/figures.rst",
            labels={"figure": "{figure}"},
        ),
    log:
        "results/{dataset}/logs/figures-{device}.log",
    threads: lambda wildcards: min(4, workflow.cores or 1)
    params:
        code=sources.digest("figures"),
    script:
        "../scripts/figures.py"


# The same campaign on several devices of a kind, side by side.
rule compare:
    input:
        environments=lambda wildcards: of_kind(wildcards.kind, "environment.json"),
        tables=lambda wildcards: of_kind(
            wildcards.kind, "summary.csv", "best.csv", "models.csv"
        ),
    output:
        report(
            f"results/{CAMPAIGN.name}/compared-{{kind}}.svg",
            category="compared",
            caption="../report/compared.rst",
            labels={"figure": "compared"},
        ),
        f"results/{CAMPAIGN.name}/compared-{{kind}}.png",
        f"results/{CAMPAIGN.name}/compared-{{kind}}.pdf",
    log:
        f"results/{CAMPAIGN.name}/logs/compare-{{kind}}.log",
    params:
        code=sources.digest("figures"),
    script:
        "../scripts/compare.py"
