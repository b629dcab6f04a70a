"""Differences between two runs of a suite.

A run maps the name of each test to its result: `passed`, `failed` or `skipped`.
"""

from typing import NamedTuple

ABSENT = "absent"


class Difference(NamedTuple):
    name: str
    direct: str
    through: str
    # The reason why it is allowed; None if it is not.
    allowed: str | None

    def __str__(self):
        reason = f" (allowed: {self.allowed})" if self.allowed else ""
        return f"{self.name}: direct {self.direct}, through the cache {self.through}{reason}"


def differences(direct, through, allowed):
    """The tests whose results differ, sorted by name."""
    return [
        Difference(name, one, other, reason(name, allowed))
        for name in sorted(direct.keys() | through.keys())
        if (one := direct.get(name, ABSENT)) != (other := through.get(name, ABSENT))
    ]


def reason(name, allowed):
    """The reason of this name, or of a beginning of it that ends with `*`."""
    starts = (why for start, why in allowed.items() if start.endswith("*") and name.startswith(start[:-1]))
    return allowed.get(name) or next(starts, None)


def allowed_differences(text):
    """Reasons by name, from lines `NAME<TAB>REASON`; empty lines and comments are skipped."""
    allowed = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        name, tab, reason = line.partition("\t")
        if not (name and tab and reason.strip()):
            raise ValueError(f"line {number}: expected NAME<TAB>REASON, found {line!r}")
        allowed[name] = reason.strip()
    return allowed


def counts(results):
    """For example `3 tests: 2 passed, 1 failed, 0 skipped`."""
    values = list(results.values())
    parts = [f"{values.count(kind)} {kind}" for kind in ("passed", "failed", "skipped")]
    return f"{len(values)} tests: {', '.join(parts)}"
