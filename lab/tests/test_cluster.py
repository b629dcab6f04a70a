"""Hands runs to a Dask scheduler and workers of its own, on loopback."""

import contextlib
import io
import os
import signal
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from lab.library import cluster, processes
from lab.library.repository import ROOT
from lab.switchv2p import apart, experiment, traces

ENROUTE = ROOT / "target" / "debug" / "enroute"
WAIT_S = 120

# A worker whose `enroute` is the file in its first argument.
WORKER = """
import pathlib, sys
from lab.library import processes
processes.ENROUTE = pathlib.Path(sys.argv.pop(1))
from distributed.cli.dask_worker import main
main()
"""
# No limit of memory: another test may have used most of it.
ONE = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0", "--host", "127.0.0.1")

# The trace is generated; ten runs, of 0.1 s and more of processor time.
SWEEP = {
    "traces": ["hadoop"],
    "share": 0.03,
    "topologies": ["ft8-10k", "topologies/gateways-4.toml"],
    "schemes": ["nocache", "switchv2p", "gwcache"],
    "caches": ["10%", "50%"],
    "models": ["published"],
}
RUNS = 10
FILES = ("results.jsonl", "results.csv")


def children(pid):
    """Processes that a process started."""
    found = []
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(each) for each in (thread / "children").read_text().split()]
    return found


def status(pid):
    """What the kernel says of a process, by name."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


def is_held(pid):
    """Stops a process; whether it had not ended before."""
    os.kill(pid, signal.SIGSTOP)
    while (state := status(pid)["State"][0]) not in "TZX":
        time.sleep(0.001)
    return state == "T"


def is_told_to_end(pid):
    """Whether a SIGTERM waits for a process that is stopped."""
    fields = status(pid)
    pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
    return bool(pending >> (signal.SIGTERM - 1) & 1)


class Cluster(unittest.TestCase):
    def setUp(self):
        processes.need(ENROUTE)
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.stack = stack
        self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for patched in (
            mock.patch.object(processes, "ENROUTE", ENROUTE),
            mock.patch.object(traces, "DIRECTORY", self.directory / "none"),
        ):
            stack.enter_context(patched)
        self.scheduler = self.dask("scheduler", "--no-dashboard", "--host", "127.0.0.1", "--port", "0")
        found = self.scheduler.line(
            lambda line: "Scheduler at" in line and processes.ADDRESS.search(line), processes.START_S
        )
        self.address = f"tcp://{found[0]}"
        self.experiment = experiment.Experiment("some", "", "layers", [SWEEP])

    def dask(self, what, *words):
        code = ("-m", "distributed.cli.dask_scheduler") if what == "scheduler" else ("-c", WORKER, what)
        self.stack.enter_context(mock.patch.dict(os.environ, {"PYTHONPATH": str(ROOT)}))
        return self.stack.enter_context(processes.running(sys.executable, *code, *words))

    def worker(self, program=ENROUTE):
        local = tempfile.mkdtemp(dir=self.directory)
        return self.dask(program, self.address, *ONE, "--local-directory", local)

    def run_apart(self, raw):
        raw.mkdir()
        with contextlib.redirect_stdout(io.StringIO()):
            apart.run(self.experiment, raw, self.address)

    def kill_with_a_run(self, worker):
        """Kills the worker while it has a run, which is held until then."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            for run in children(worker.process.pid):
                with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                    if not ENROUTE.samefile(f"/proc/{run}/exe") or not is_held(run):
                        continue
                    os.kill(worker.process.pid, signal.SIGKILL)
                    while not is_told_to_end(run) and time.monotonic() < deadline:
                        time.sleep(0.002)
                    self.killed.append(is_told_to_end(run))
                    os.kill(run, signal.SIGKILL)
                    return
            time.sleep(0.002)

    def test_results_are_those_of_a_local_run_though_a_worker_is_killed(self):
        local, remote = self.directory / "local", self.directory / "remote"
        local.mkdir()
        experiment.run(self.experiment, local)
        victim, _ = self.worker(), self.worker()
        self.killed = []
        killer = threading.Thread(target=self.kill_with_a_run, args=(victim,))
        killer.start()
        stored, ended = experiment.output(SWEEP, remote), []
        finish = experiment.run

        def last(*arguments):
            ended.append((stored / "results.jsonl").read_bytes())
            finish(*arguments)

        with mock.patch.object(experiment, "run", last):
            self.run_apart(remote)
        killer.join()
        # The run was under way, and did not outlive its worker.
        self.assertEqual(self.killed, [True])
        self.assertEqual(victim.process.wait(processes.STOP_S), -signal.SIGKILL)
        # Nothing was left for this machine.
        self.assertEqual(len(set(ended[0].splitlines())), RUNS)
        self.assertGreaterEqual(len((stored / "costs.jsonl").read_text().splitlines()), RUNS)
        for name in FILES:
            expected = (experiment.output(SWEEP, local) / name).read_bytes()
            self.assertEqual((stored / name).read_bytes(), expected, name)
            self.assertEqual(len(expected.splitlines()), RUNS + name.endswith(".csv"))

    def test_what_has_a_result_is_not_run_again(self):
        remote = self.directory / "remote"
        self.worker()
        self.run_apart(remote)
        output = experiment.output(SWEEP, remote)
        before = {name: (output / name).read_bytes() for name in FILES}
        lines = before["results.jsonl"].splitlines(keepends=True)
        # As if the lab had been killed while it wrote the last one.
        (output / "results.jsonl").write_bytes(b"".join(lines[:-1]) + lines[-1][:20])
        asked = []

        def counted(address, tasks):
            asked.extend(tasks)
            return ask(address, tasks)

        ask = cluster.run
        with mock.patch.object(cluster, "run", counted):
            with contextlib.redirect_stdout(io.StringIO()):
                apart.run(self.experiment, remote, self.address)
        self.assertEqual(len(asked), 1)
        self.assertEqual({name: (output / name).read_bytes() for name in FILES}, before)

    def test_a_worker_with_another_program_is_refused(self):
        other = self.directory / "enroute"
        other.write_bytes(b"#!/bin/sh\nexit 0\n")
        other.chmod(0o755)
        self.worker(other)
        with self.assertRaisesRegex(processes.Failed, r"worker tcp://\S+ has another program: expected"):
            self.run_apart(self.directory / "remote")
        self.assertEqual(experiment.results(self.directory / "remote"), [])

    def test_a_scheduler_without_workers_is_an_error(self):
        with mock.patch.object(cluster, "START_S", 1):
            with self.assertRaisesRegex(processes.Failed, "no worker after 1 s; start one"):
                self.run_apart(self.directory / "remote")

    def test_an_address_without_a_scheduler_is_named(self):
        address = f"tcp://127.0.0.1:{processes.free_port()}"
        with mock.patch.object(cluster, "START_S", 1):
            with self.assertRaisesRegex(processes.Failed, f"no Dask scheduler at {address}"):
                list(cluster.run(address, []))

    def test_a_lost_scheduler_is_an_error(self):
        self.worker()
        ask = cluster.run

        def after_the_first(address, tasks):
            for each in ask(address, tasks):
                self.scheduler.process.kill()
                yield each

        with mock.patch.object(cluster, "run", after_the_first):
            with self.assertRaisesRegex(processes.Failed, self.address):
                self.run_apart(self.directory / "remote")

    def test_another_sweep_that_writes_is_waited_for_by_hand(self):
        output = experiment.output(SWEEP, self.directory)
        with apart.journal(output), self.assertRaisesRegex(processes.Failed, "another sweep writes"):
            with apart.journal(output):
                pass


class Runs(unittest.TestCase):
    def test_a_sweep_is_split_into_its_runs(self):
        for each in experiment.load([], False):
            if not each.lacks():
                runs = sum(len(apart.single(sweep)) for sweep in each.sweeps)
                self.assertEqual(runs, each.runs(), each.name)

    def test_a_task_has_every_file_that_its_sweep_names(self):
        with tempfile.TemporaryDirectory() as directory:
            raw = Path(directory)
            (raw / "traces").mkdir()
            trace = raw / "traces" / "hadoop.csv.gz"
            trace.write_bytes(b"rows")
            with mock.patch.object(traces, "file", lambda name: trace):
                first, *_, last = [apart.task(one, raw) for one in apart.single(SWEEP)]
        self.assertEqual(first.files["traces/hadoop.csv.gz"], b"rows")
        self.assertEqual(sorted(first.files), ["run.toml", "traces/hadoop.csv.gz"])
        name, = last.files.keys() - first.files.keys()
        self.assertTrue(name.startswith("../") and name.endswith("topologies/gateways-4.toml"), name)
        self.assertIn(b"pods = 8", last.files[name])


if __name__ == "__main__":
    unittest.main()
