"""Runs `enroute` on the workers of a Dask cluster (`dask.distributed`).

A task is a command line and the files that it reads; its result is the files that it writes, so
workers share no file system with the lab. Dask repeats the tasks of a worker that is killed on
another one. A worker must have the same program, byte by byte; another one is refused.
"""

import functools
import hashlib
import subprocess
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

import distributed

from lab.library import processes

# Time until a scheduler must have accepted a connection, and have a worker.
START_S = 60
WORKER = "PYTHONPATH=. .deps/python/bin/dask worker {address} --nthreads 1 --nworkers CORES"


@dataclass(frozen=True)
class Task:
    """One call of `enroute` in a directory of its own."""

    # Its arguments.
    words: tuple
    # Files that it reads: contents by path, which may begin with `..`.
    files: dict
    # Paths of the files that it writes and that are its result.
    written: tuple


def run(address, tasks):
    """Runs tasks on the workers of a scheduler. Yields the contents of the files of each, in the
    order in which they end."""
    try:
        client = distributed.Client(address, timeout=START_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise processes.Failed(f"no Dask scheduler at {address}: {error}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=START_S)
        except TimeoutError as error:
            start = WORKER.format(address=address)
            raise processes.Failed(
                f"the Dask scheduler {address} has no worker after {START_S} s; start one in a "
                f"checkout of the same commit: {start}"
            ) from error
        expected = digest(processes.ENROUTE)
        futures = client.map(execute, tasks, expected=expected, pure=False)
        for future in distributed.as_completed(futures, loop=client.loop):
            try:
                result = future.result()
            # Of the task, of Dask's own, or of what a worker lacks: it may be of any type.
            except Exception as error:
                why = "".join(traceback.format_exception_only(error)).strip()
                raise processes.Failed(f"Dask cluster {address}: {why}") from error
            future.release()
            yield result


def execute(task, expected):
    """Runs a task; called on a worker."""
    worker = distributed.get_worker().address
    found = digest(processes.ENROUTE)
    if found != expected:
        raise processes.Failed(
            f"worker {worker} has another program: expected {processes.ENROUTE} with SHA-256 "
            f"{expected[:16]}, found {found[:16]}; copy the program there, or build the same commit"
        )
    with tempfile.TemporaryDirectory(prefix="enroute-lab-") as top:
        above = max((Path(name).parts.count("..") for name in task.files), default=0)
        directory = Path(top, *["below"] * above)
        directory.mkdir(parents=True, exist_ok=True)
        for name, contents in task.files.items():
            path = (directory / name).resolve()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents)
        done = subprocess.run(
            [processes.ENROUTE, *task.words],
            cwd=directory,
            capture_output=True,
            check=False,
            # A worker that is killed leaves no run behind.
            preexec_fn=processes.die_with_parent,
        )
        if done.returncode:
            last = "\n".join(done.stderr.decode(errors="replace").splitlines()[-5:])
            raise processes.Failed(f"worker {worker}: enroute ended with {done.returncode}:\n{last}")
        return {name: (directory / name).read_bytes() for name in task.written}


def digest(program):
    """SHA-256 of a program's file; `missing` without one."""
    try:
        state = program.stat()
    except OSError:
        return "missing"
    return digest_of(program, state.st_mtime_ns, state.st_size)


@functools.lru_cache(maxsize=4)
def digest_of(program, _modified, _size):
    with program.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
