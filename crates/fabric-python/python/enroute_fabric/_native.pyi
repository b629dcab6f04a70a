"""The native part: options in, lines of JSON out. `enroute_fabric` is the interface for users."""

from typing import Any

VERSION: str

class InputError(ValueError):
    """An invalid option, experiment, topology or trace."""

    place: str | None
    expected: str | None
    found: str | None

def run(options: dict[str, Any]) -> tuple[tuple[str, str], str]: ...
def sweep_file(
    file: str, output: str | None, jobs: int | None
) -> tuple[int, int, list[tuple[str, str]]]: ...
def sweep_lists(
    text: str, output: str, jobs: int | None
) -> tuple[int, int, list[tuple[str, str]]]: ...
