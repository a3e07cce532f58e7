"""Whether tables keep to the types of the data dictionary."""

import pandas as pd


def fits(values, type_):
    """Whether a column's values, as text, are of a type."""
    values = values[values != ""]
    if type_ == "bool":
        return set(values) <= {"True", "False"}
    if type_.startswith("int"):
        return bool(values.str.fullmatch(r"-?\d+(\.0)?").all())
    return type_ == "string" or pd.to_numeric(values, errors="coerce").notna().all()
