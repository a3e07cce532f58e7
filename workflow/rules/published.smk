GROUP = "[a-z0-9-]+/[a-z0-9_-]+"  # DEVICE/CAMPAIGN


# The tables and figures of a published dataset, whose committed files are first compared with its checksums.
rule redraw:
    input:
        committed=lambda wildcards: sorted(
            path
            for path in (PUBLISHED / wildcards.device).rglob("*")
            if path.is_file()
        ),
        kernels=lambda wildcards: [
            CAMPAIGNS.kernels[id].path
            for id in published_index.kernel_ids([FEATURED[wildcards.device]])
            if id in CAMPAIGNS.kernels
        ],
    output:
        **{
            name: f"results/{dataset_layout.REDRAWN}/{{device}}/{name}.csv"
            for name in dataset_layout.TABLES
        },
        environment=f"results/{dataset_layout.REDRAWN}/{{device}}/environment.json",
        figures=directory(f"results/{dataset_layout.REDRAWN}/{{device}}/figures"),
    log:
        f"results/{dataset_layout.REDRAWN}/logs/redraw-{{device}}.log",
    wildcard_constraints:
        device=GROUP,
    threads: lambda wildcards: min(4, workflow.cores or 1)
    params:
        featured=lambda wildcards: FEATURED[wildcards.device],
        contents=lambda wildcards, input: dataset_layout.contents(input),
        code=code_digest.digest("cli.publish"),
    script:
        "../scripts/redraw.py"


# Compare what was drawn with the dataset's checksums.
rule check_drawn:
    input:
        rules.redraw.output,
    output:
        touch(f"results/{dataset_layout.REDRAWN}/{{device}}/drawn.checked"),
    log:
        f"results/{dataset_layout.REDRAWN}/logs/check_drawn-{{device}}.log",
    wildcard_constraints:
        device=GROUP,
    params:
        folder=lambda wildcards: PUBLISHED / wildcards.device,
        code=code_digest.digest("cli.publish"),
    script:
        "../scripts/check_drawn.py"


# Compare the figures of several datasets with their checksums.
rule check_compared:
    input:
        REDRAWN.comparisons(),
        sums=PUBLISHED / "SHA256SUMS",
    output:
        touch(f"results/{dataset_layout.REDRAWN}/compared.checked"),
    log:
        f"results/{dataset_layout.REDRAWN}/logs/check_compared.log",
    params:
        folder=PUBLISHED,
        code=code_digest.digest("cli.publish"),
    script:
        "../scripts/check_drawn.py"
