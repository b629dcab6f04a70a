"""Verdicts: what a paper says of each of its tables and figures, compared with our tables.

`experiments/PAPER/claims.toml` has an item for each table and figure of the paper, with one or more
claims. A claim names cells of the tables that the lab writes as CSV, so verdicts need no raw
results and can be computed again for each commit.
"""

import csv
import tomllib
from dataclasses import dataclass, field, replace

from lab.library import repository

REPRODUCED, BETTER = "reproduced", "better"
NOT_REPRODUCED, NOT_RUN = "not reproduced", "not run"
# The verdict of an item is the first of these among its claims.
WORST_FIRST = (NOT_RUN, NOT_REPRODUCED, BETTER, REPRODUCED)

# Deviation from a value of the paper that counts as reproduced, if the claim names no other.
WITHIN = 0.1


@dataclass(frozen=True)
class Claim:
    """One statement of the paper about cells of our tables."""

    # The quantity, with its unit.
    says: str
    # Names of the tables (files without .csv), and the cells in them: rows by the contents of their
    # columns, and a column. In the file `columns` may name several, for as many claims.
    tables: list
    row: dict
    column: str
    # Which of several values counts: "most" or "least". Without it, exactly one is expected.
    take: str = ""
    # The value is divided by that of the row with these contents, in the same table. `per`: each
    # row is divided by the one with the same contents in this column.
    over: dict = field(default_factory=dict)
    per: str = ""
    # The paper's value, or the contents of the row of the same table that has it; and the allowed
    # deviation: a share of it, or `margin` in its unit.
    paper: float | dict | None = None
    within: float = WITHIN
    margin: float | None = None
    # In place of `paper`: the bounds that the paper states or that its words imply.
    least: float | None = None
    most: float | None = None
    # The direction in which values beyond the paper's are better: "more", "less", or neither.
    better: str = ""
    # Why it is not reproduced.
    cause: str = ""

    def judged(self, directory):
        """This claim with our value and the paper's, compared."""
        value = self.value(directory)
        if isinstance(self.paper, dict):
            rows = read(directory / f"{self.tables[0]}.csv") or []
            printed = numbers(rows, self.paper, self.column)
            if len(printed) != 1:
                return Judged(self, None, NOT_RUN)
            return replace(self, paper=printed[0]).against(value)
        return self.against(value)

    def against(self, value):
        least, most = self.bounds()
        verdict = REPRODUCED
        if value is None:
            verdict = NOT_RUN
        elif least is not None and value < least:
            verdict = BETTER if self.better == "less" else NOT_REPRODUCED
        elif most is not None and value > most:
            verdict = BETTER if self.better == "more" else NOT_REPRODUCED
        return Judged(self, value, verdict)

    def bounds(self):
        if self.paper is None:
            return self.least, self.most
        margin = abs(self.paper) * self.within if self.margin is None else self.margin
        return self.paper - margin, self.paper + margin

    def value(self, directory):
        """Our value; None if a table is missing or has no such cell yet."""
        found = []
        for name in self.tables:
            rows = read(directory / f"{name}.csv")
            if rows is None:
                return None
            found += self.quotients(rows) if self.over else numbers(rows, self.row, self.column)
        if not found:
            return None
        if self.take:
            return max(found) if self.take == "most" else min(found)
        if len(found) != 1:
            raise ValueError(f"claim {self.says!r}: {len(found)} cells, expected one")
        return found[0]

    def quotients(self, rows):
        groups = {row[self.per] for row in rows} if self.per else {None}
        for group in groups:
            same = {self.per: group} if self.per else {}
            above = numbers(rows, self.row | same, self.column)
            below = numbers(rows, self.over | same, self.column)
            if len(above) == len(below) == 1 and below[0]:
                yield above[0] / below[0]


@dataclass(frozen=True)
class Judged:
    claim: Claim
    value: float | None
    verdict: str

    def stated(self):
        """The paper's value or bounds as text."""
        claim = self.claim
        if isinstance(claim.paper, dict):
            return ""
        if claim.paper is not None:
            return f"{claim.paper:,g}"
        if claim.least is not None and claim.most is not None:
            return f"{claim.least:g} to {claim.most:g}"
        return f"≥ {claim.least:g}" if claim.most is None else f"≤ {claim.most:g}"

    def here(self):
        return "" if self.value is None else f"{self.value:.4g}"

    def difference(self):
        """Deviation from the paper's value, if it states one."""
        if self.value is None or not isinstance(self.claim.paper, int | float) or not self.claim.paper:
            return ""
        return f"{(self.value / self.claim.paper - 1) * 100:+.1f} %"


@dataclass(frozen=True)
class Item:
    """One table or figure of a paper, judged."""

    name: str
    # The section of the report that shows it.
    section: str
    judged: list

    @property
    def verdict(self):
        return min((each.verdict for each in self.judged), key=WORST_FIRST.index)

    def causes(self):
        """Why claims are not reproduced, each reason once."""
        reasons = [each.claim.cause or "the cause is not known" for each in self.judged
                   if each.verdict == NOT_REPRODUCED]
        return "; ".join(dict.fromkeys(reasons))


def items(paper, directory):
    """Each table and figure of a paper, judged by the tables in a directory of results."""
    file = repository.EXPERIMENTS / paper / "claims.toml"
    return [item(entry, directory) for entry in tomllib.loads(file.read_text())["item"]]


def summary(judged):
    """The items as a table: a row each, with the value that decides the verdict."""
    rows = []
    for each in judged:
        first = next(claim for claim in each.judged if claim.verdict == each.verdict)
        rows.append([each.name, each.verdict, first.claim.says, first.stated(), first.here()])
    return ["item", "verdict", "for example", "paper", "here"], rows


def item(entry, directory):
    section = entry["section"]
    judged = [each.judged(directory) for stated in entry["claims"] for each in claims(section, stated)]
    return Item(entry["name"], section, judged)


def claims(section, stated):
    """The claims of one entry of the file: one for each of its columns."""
    stated = {"tables": [section]} | stated
    columns = stated.pop("columns", None)
    if columns is None:
        return [Claim(**stated)]
    says = stated.pop("says")
    return [Claim(says=f"{says}: {column}", column=column, **stated) for column in columns]


def read(path):
    """The rows of a table, by the names of its columns; None without the file."""
    if not path.exists():
        return None
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def numbers(rows, contents, column):
    """The numbers in a column of the rows with these contents; other cells are left out."""
    cells = [row.get(column, "") for row in rows
             if all(row.get(name) == value for name, value in contents.items())]
    return [number for cell in cells if (number := parsed(cell)) is not None]


def parsed(cell):
    try:
        return float(cell.replace(",", "").removesuffix("%"))
    except ValueError:
        return None
