# All figures of a dataset in one job: importing seaborn takes longer than drawing.
rule figures:
    input:
        **{
            name: f"results/{{dataset}}/{{device}}/{name}.csv"
            for name in dataset_layout.DRAWN_FROM
        },
        environment="results/{dataset}/{device}/environment.json",
    output:
        report(
            directory("results/{dataset}/{device}/figures"),
            patterns=["{figure}.svg"],
            category="{dataset}",
            subcategory="{device}",
            caption="../report/figures.rst",
            labels={"figure": "{figure}"},
        ),
    log:
        "results/{dataset}/logs/figures-{device}.log",
    # of many cores, some are left for the claims and the page
    threads: lambda wildcards: min(8, (workflow.cores or 1) - (workflow.cores or 1) // 4)
    params:
        formats=lambda wildcards: targets_of(wildcards).datasets.formats,
        contents=of("contents"),
        code=code_digest.digest("figures.draw"),
    script:
        "../scripts/figures.py"


# One figure of several devices of a kind, side by side.
rule compare:
    input:
        environments=lambda wildcards: targets_of(wildcards).datasets.files(
            "environment.json", kind=wildcards.kind
        ),
        tables=lambda wildcards: targets_of(wildcards).datasets.files(
            *(f"{name}.csv" for name in dataset_layout.DRAWN_FROM), kind=wildcards.kind
        ),
    output:
        report(
            "results/{dataset}/compared-{kind}.svg",
            category="{dataset}",
            subcategory="compared",
            caption="../report/compared.rst",
            labels={"figure": "compared"},
        ),
    log:
        "results/{dataset}/logs/compare-{kind}.log",
    params:
        formats=lambda wildcards: targets_of(wildcards).datasets.formats,
        code=code_digest.digest("figures.draw"),
    script:
        "../scripts/compare.py"


# The explorer: an offline page of all datasets of a campaign, and the rows that it loads when asked.
rule index:
    input:
        environments=lambda wildcards: datasets_of(wildcards).files("environment.json"),
        tables=lambda wildcards: datasets_of(wildcards).files("best.csv"),
        claims=lambda wildcards: datasets_of(wildcards).claims,
    output:
        page="results/{dataset}/index.html",
        data=directory("results/{dataset}/index_files"),
    log:
        "results/{dataset}/logs/index.log",
    params:
        title=lambda wildcards: (
            "Gemm Ladder: published results"
            if wildcards.dataset == dataset_layout.REDRAWN
            else f"Gemm Ladder: campaign {wildcards.dataset}"
        ),
        names=lambda wildcards: list(datasets_of(wildcards).kinds),
        code=code_digest.digest("figures.explorer"),
    script:
        "../scripts/index.py"
