# Compare the committed files of a published dataset with its checksums before anything is drawn from them.
rule check_data:
    input:
        lambda wildcards: PUBLISHED.committed(wildcards.device),
    output:
        touch(f"results/{dataset_layout.REDRAWN}/{{device}}/data.checked"),
    log:
        f"results/{dataset_layout.REDRAWN}/logs/check_data-{{device}}.log",
    params:
        folder=lambda wildcards: PUBLISHED.folder / wildcards.device,
        contents=lambda wildcards: PUBLISHED.contents(wildcards.device),
        code=code_digest.digest("publishing.publish"),
    script:
        "../scripts/check_data.py"


# Compare the tables and figures drawn from it with its checksums.
rule check_drawn:
    input:
        lambda wildcards: PUBLISHED.drawn(wildcards.device),
        data=f"results/{dataset_layout.REDRAWN}/{{device}}/data.checked",
    output:
        touch(f"results/{dataset_layout.REDRAWN}/{{device}}/drawn.checked"),
    log:
        f"results/{dataset_layout.REDRAWN}/logs/check_drawn-{{device}}.log",
    params:
        folder=lambda wildcards: PUBLISHED.folder / wildcards.device,
        code=code_digest.digest("publishing.publish"),
    script:
        "../scripts/check_drawn.py"


# Compare the figures of several datasets with their checksums.
rule check_compared:
    input:
        COMPARED,
        sums=PUBLISHED.folder / "SHA256SUMS",
    output:
        touch(f"results/{dataset_layout.REDRAWN}/compared.checked"),
    log:
        f"results/{dataset_layout.REDRAWN}/logs/check_compared.log",
    params:
        folder=PUBLISHED.folder,
        code=code_digest.digest("publishing.publish"),
    script:
        "../scripts/check_drawn.py"
