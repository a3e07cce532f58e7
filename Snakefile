# What `snakemake` finds first in this folder. The workflow is in workflow/, where the Snakemake workflow catalog looks for it.
include: "workflow/Snakefile"


# an included file does not set the default target
workflow.default_target = "all"
