GROUP = "[a-z0-9-]+/[a-z0-9_-]+"  # DEVICE/CAMPAIGN


# The tables of a published dataset and the figures that pages show. All files, committed or made here, are compared with its checksums.
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
    params:
        featured=lambda wildcards: FEATURED[wildcards.device],
        contents=lambda wildcards, input: dataset_layout.contents(input),
        code=code_digest.digest("cli.publish"),
    script:
        "../scripts/redraw.py"
