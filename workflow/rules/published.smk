# What is committed of a published dataset is what its checksums say, before anything is drawn from it.
rule check_data:
    input:
        lambda wildcards: TARGETS.committed(wildcards.device),
    output:
        touch(f"results/{targets.REDRAWN}/{{device}}/data.checked"),
    log:
        f"results/{targets.REDRAWN}/logs/check_data-{{device}}.log",
    params:
        folder=lambda wildcards: TARGETS.published / wildcards.device,
        contents=lambda wildcards: TARGETS.contents(targets.REDRAWN, wildcards.device),
        code=sources.digest("publish"),
    script:
        "../scripts/check_data.py"


# And so are the tables and figures.
rule check_drawn:
    input:
        lambda wildcards: TARGETS.drawn(wildcards.device),
        data=f"results/{targets.REDRAWN}/{{device}}/data.checked",
    output:
        touch(f"results/{targets.REDRAWN}/{{device}}/drawn.checked"),
    log:
        f"results/{targets.REDRAWN}/logs/check_drawn-{{device}}.log",
    params:
        folder=lambda wildcards: TARGETS.published / wildcards.device,
        code=sources.digest("publish"),
    script:
        "../scripts/check_drawn.py"


# And what is drawn from several.
rule check_compared:
    input:
        TARGETS.compared_published(),
        sums=TARGETS.published / "SHA256SUMS",
    output:
        touch(f"results/{targets.REDRAWN}/compared.checked"),
    log:
        f"results/{targets.REDRAWN}/logs/check_compared.log",
    params:
        folder=TARGETS.published,
        code=sources.digest("publish"),
    script:
        "../scripts/check_drawn.py"
