# The claims, the published entries about them, and the limits between runs.
CLAIMED = [
    places.HOME / dataset_layout.CLAIMS,
    *sorted([*PUBLISHED.glob(dataset_layout.JUDGED), *PUBLISHED.glob("repeat-*.csv")]),
]


# The claims of config/claims.yaml that a dataset can judge, and its judgments.
rule claims:
    input:
        **{
            name: f"results/{{dataset}}/{{device}}/{name}.csv"
            for name in dataset_layout.CLAIMED_OF
        },
        environment="results/{dataset}/{device}/environment.json",
        claimed=CLAIMED,
    output:
        "results/{dataset}/{device}/claims.json",
    log:
        "results/{dataset}/logs/claims-{device}.log",
    params:
        code=code_digest.digest("claims.judge"),
    script:
        "../scripts/claims.py"


# All published data, judged again: once for all campaigns.
rule judge_published:
    input:
        claimed=CLAIMED,
        published=datasets.judged_by(PUBLISHED),
    output:
        f"{REDRAWN.folder}/claims.json",
    log:
        f"{REDRAWN.folder}/logs/judge_published.log",
    params:
        contents=lambda wildcards, input: dataset_layout.contents(input.published),
        code=code_digest.digest("claims.judge"),
    script:
        "../scripts/judge_published.py"


# The judgments of all datasets of the campaign, and of all published data.
rule reproduced:
    input:
        lambda wildcards: targets_of(wildcards).datasets.claims,
        f"{REDRAWN.folder}/claims.json",
    output:
        table="results/{dataset}/reproduced.json",
        page="results/{dataset}/reproduced.html",
    log:
        "results/{dataset}/logs/reproduced.log",
    params:
        claim=lambda wildcards: CAMPAIGNS.data[wildcards.dataset].get("claim", ""),
        code=code_digest.digest("claims.report"),
    script:
        "../scripts/reproduced.py"
