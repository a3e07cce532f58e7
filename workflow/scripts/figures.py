"""Draw the figures of a dataset."""

import json
from pathlib import Path

import pandas as pd
from ladder import figures
from ladder.environment import clear_errors

with clear_errors():
    tables = [pd.read_csv(snakemake.input[name], keep_default_na=False, na_values=[""]) for name in ("summary", "best")]
    environment = json.loads(Path(snakemake.input.environment).read_text())
    figures.draw_all(*tables, environment, Path(snakemake.output[0]))
