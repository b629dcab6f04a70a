"""Executes several measuring processes at the same time and displays their progress."""

import heapq
import json
import queue
import subprocess
import sys
import threading
import time

from lab.library import processes, repository
from lab.vnf_cache import results

REFRESH_S = 1.0
# Interval of progress lines without a terminal; each finished batch prints a line, too.
LINE_S = 30.0


def measure_all(paper, directory, short):
    """Measures the batches without results: first scenarios marked `alone`, one at a time."""
    missing = [run for run in paper.runs if results.missing_batches(directory, run)]
    alone = [run for run in missing if run.alone]
    together = [run for run in missing if not run.alone]
    board = Board(paper, directory, missing)
    failed = []
    for runs, lanes in ((alone, 1), (together, paper.common["lanes"]["count"])):
        # Longest first, so that all lanes end at about the same time.
        runs = sorted(runs, key=board.left_s, reverse=True)
        failed += Lanes(paper, directory, short, board).work_off(runs, lanes)
    board.close()
    if failed:
        names = ", ".join(failed)
        raise processes.Failed(f"not finished: {names}; run the command again to continue")


class Lanes:
    """The running measuring processes."""

    def __init__(self, paper, directory, short, board):
        self.paper, self.directory, self.short, self.board = paper, directory, short, board
        self.events = queue.Queue()
        self.active = {}

    def work_off(self, waiting, lanes):
        """Executes all runs, up to `lanes` at a time; returns the names of those that failed."""
        waiting, failed = list(waiting), []
        try:
            while waiting or self.active:
                while waiting and len(self.active) < lanes:
                    self.start(waiting.pop(0))
                failed += self.step()
                self.board.show(len(waiting), list(self.active))
        finally:
            self.stop()
        return failed

    def start(self, run):
        command = [sys.executable, "-m", "lab.vnf_cache.measure", run.name]
        command += [str(self.directory), *(["--short"] if self.short else [])]
        # As in `processes`: Ctrl-C signals only the lab, and the processes end with it.
        process = subprocess.Popen(
            command,
            cwd=repository.ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=processes.die_with_parent,
        )
        self.active[run] = process
        threading.Thread(target=self.read, args=(run, process), daemon=True).start()

    def read(self, run, process):
        for line in process.stdout:
            self.events.put((run, json.loads(line)))
        self.events.put((run, None))

    def step(self):
        """Handles one event; waits up to one second for it."""
        try:
            run, event = self.events.get(timeout=REFRESH_S)
        except queue.Empty:
            return []
        if event:
            self.board.note(run, event)
            return []
        process = self.active.pop(run)
        process.stdout.close()
        return [run.name] if process.wait() else []

    def stop(self):
        for process in self.active.values():
            process.terminate()
        for process in self.active.values():
            # Each process stops its own programs.
            processes.stop(process)
        self.active.clear()


class Board:
    """Progress display: redrawn in place on a terminal, otherwise one line for each batch."""

    def __init__(self, paper, directory, runs):
        self.batch_s = {run: paper.expected_s(run, run.batches) / run.batches for run in runs}
        self.done = {run: len(results.done_batches(directory, run)) for run in runs}
        self.latest = {}
        self.lanes = paper.common["lanes"]["count"]
        self.terminal = sys.stdout.isatty()
        self.drawn = 0
        self.shown_s = time.monotonic()

    def note(self, run, event):
        self.latest[run] = event
        if event["requests"] < run.requests:
            return
        self.done[run] = event["batch"]
        if run.workload == "uniform" and not self.terminal:
            print(self.describe(run), flush=True)

    def left_s(self, run):
        """Estimated remaining time of a run, in seconds."""
        event = self.latest.get(run)
        inside = event["requests"] / run.requests if event else 0
        inside = inside if inside < 1 else 0
        return max(0.0, run.batches - self.done[run] - inside) * self.batch_s[run]

    def eta_s(self):
        """Estimated time until all runs have ended, in seconds."""
        lanes = [0.0] * self.lanes
        for left in sorted((self.left_s(run) for run in self.done if not run.alone), reverse=True):
            heapq.heapreplace(lanes, lanes[0] + left)
        return sum(self.left_s(run) for run in self.done if run.alone) + max(lanes)

    def show(self, waiting, active):
        now = time.monotonic()
        if now - self.shown_s < (REFRESH_S if self.terminal else LINE_S):
            return
        self.shown_s = now
        left = clock(self.eta_s())
        summary = f"{len(active)} running, {waiting} waiting, about {left} remaining"
        if not self.terminal:
            print(summary, flush=True)
            return
        lines = [self.describe(run) for run in active] + [summary]
        self.erase()
        print("\n".join(lines), flush=True)
        self.drawn = len(lines)

    def describe(self, run):
        event = self.latest.get(run)
        place = f"{run.protocol:<9} {run.scenario.upper()} {run.location.name:<6} {capacity_name(run.capacity):>9}"
        if not event:
            return f"{place}  starting"
        unit = "batch" if run.workload == "uniform" else "key"
        share = f"{event['requests'] / run.requests:4.0%}"
        rate = f"{event['rate']:7.1f}/s  {event['hit_ratio']:4.0%} hits"
        return f"{place}  {unit} {event['batch']:>2} of {run.batches:<3} {share}  {rate}"

    def erase(self):
        if self.drawn:
            print(f"\x1b[{self.drawn}A\x1b[J", end="")

    def close(self):
        if self.terminal:
            self.erase()
            self.drawn = 0


def capacity_name(capacity):
    return f"cache {capacity}" if capacity else "no cache"


def clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"
