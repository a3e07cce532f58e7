# What a dataset says to the claims of config/claims.yaml, as far as it can.
rule claims:
    input:
        **{
            name: f"results/{{dataset}}/{{device}}/{name}.csv"
            for name in dataset_layout.CLAIMED_OF
        },
        environment=of("environment"),
        claimed=PUBLISHED.claimed(),
    output:
        "results/{dataset}/{device}/claims.json",
    log:
        "results/{dataset}/logs/claims-{device}.log",
    params:
        code=code_digest.digest("claims.judge"),
    script:
        "../scripts/claims.py"


# The same of all datasets of the campaign, of studies made here, and of what is published, which is judged anew.
rule reproduced:
    input:
        here=lambda wildcards: targets_of(wildcards).claims(),
        claimed=PUBLISHED.claimed(),
        studies=sorted((files.ROOT / "results" / "studies").glob("*.json")),
        published=PUBLISHED.data(),
    output:
        table="results/{dataset}/reproduced.json",
        page="results/{dataset}/reproduced.html",
    log:
        "results/{dataset}/logs/reproduced.log",
    params:
        contents=lambda wildcards: PUBLISHED.all_contents(),
        code=code_digest.digest("claims.report"),
    script:
        "../scripts/reproduced.py"


# Tells it, and fails where something was not reproduced: always, for it makes nothing.
rule reproduce:
    input:
        table=f"results/{REPRODUCED}/reproduced.json",
    log:
        f"results/{REPRODUCED}/logs/reproduce.log",
    script:
        "../scripts/reproduce.py"
