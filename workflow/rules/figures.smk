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
    threads: workflow.cores
    params:
        code=sources.digest("figures"),
    script:
        "../scripts/figures.py"
