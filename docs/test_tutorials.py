"""Runs every command of the tutorials as typed, and compares what it prints with the page.

A block "```console server" is a command in a terminal of its own: it continues to run, and the
lines below it are those that it prints by the time it is ready. A block "```console" is typed into
the main terminal: lines that begin with "$ " are commands, the lines below each are all that it
prints. In a line, "..." stands for any text; on a line of its own, for any lines. A block of another
language below "`NAME`:" is a file of that name. Each page has a network namespace of its own.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(ROOT.glob("docs/tutorial/*.md"))
BINARIES = [ROOT / "target/debug", ROOT / ".deps/bin"]
PATIENCE_S = 120
RETRIES_S = 20
BLOCK = re.compile(r"(?:^`(?P<file>[^`\n]+)`:\n\n)?^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)


def blocks(page):
    """Yields the kind, the file name or None, and the text of each block of a page."""
    for found in BLOCK.finditer(page.read_text()):
        yield found["kind"].strip(), found["file"], found["text"]


def commands(text):
    """Splits a block into pairs of a command and the lines that it prints."""
    pairs = []
    continued = False
    for line in text.splitlines():
        if continued:
            pairs[-1][0] += "\n" + line
        elif line.startswith("$ "):
            pairs.append([line[2:], []])
        else:
            pairs[-1][1].append(line)
        command = pairs[-1][0]
        continued = not pairs[-1][1] and command.endswith("\\")
    return pairs


def pattern(lines):
    """A regular expression of what a command prints."""
    parts = []
    for line in lines:
        if line.strip() == "...":
            parts.append(r"(?:[^\n]*\n)*?")
        else:
            parts.append(r"[^\n]*?".join(map(re.escape, line.rstrip().split("..."))) + r"[ \t]*\n")
    return "".join(parts)


class Terminal:
    """Runs what is typed, in a directory and a network namespace that end with it."""

    def __init__(self, directory):
        self.directory = directory
        self.servers = []
        path = os.pathsep.join([*map(str, BINARIES), os.environ["PATH"]])
        self.environment = {**os.environ, "PATH": path, "HOME": directory, "COLUMNS": "100"}
        self.environment.pop("ENROUTE_LOG", None)
        mapped = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
        script = "ip link set lo up && echo up && exec sleep infinity"
        self.namespace = subprocess.Popen(
            ["unshare", *mapped, "--net", "sh", "-c", script], stdout=subprocess.PIPE, text=True
        )
        if self.namespace.stdout.readline() != "up\n":
            raise RuntimeError("no network namespace could be made")

    def inside(self, command):
        user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        enter = ["nsenter", f"--target={self.namespace.pid}", *user, "--net"]
        return [*enter, "bash", "-c", command]

    def type(self, command):
        """Runs a command to its end; returns what it printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                self.inside(command),
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=PATIENCE_S,
                check=False,
            )
        raise AssertionError(f"{command}: not ended after {PATIENCE_S} s")

    def serve(self, command, ready):
        """Starts a server, and waits until it has printed these lines."""
        log = Path(self.directory, f"server-{len(self.servers)}.log")
        with log.open("w") as out:
            server = subprocess.Popen(
                self.inside("exec " + command),
                cwd=self.directory,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )
        self.servers.append((command, server, log))
        deadline = time.monotonic() + PATIENCE_S
        while not re.search("^" + pattern(ready), log.read_text(), re.M):
            if server.poll() is not None:
                raise AssertionError(f"{command}: ended with {server.returncode}:\n{log.read_text()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{command}: expected {ready}, got\n{log.read_text()}")
            time.sleep(0.05)

    def close(self):
        """Ends the servers as Ctrl-C does; returns those that failed."""
        failed = []
        for command, server, log in reversed(self.servers):
            server.send_signal(signal.SIGINT)
            try:
                status = server.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                server.kill()
                status = f"signal after {PATIENCE_S} s without an end"
            if status != 0:
                failed.append(f"{command}: ended with {status}:\n{log.read_text()}")
        self.namespace.kill()
        self.namespace.wait()
        self.namespace.stdout.close()
        return failed


class Tutorials(unittest.TestCase):
    maxDiff = None

    def follow(self, page):
        with tempfile.TemporaryDirectory(prefix="enroute-tutorial-") as directory:
            terminal = Terminal(directory)
            try:
                for kind, file, text in blocks(page):
                    if file:
                        Path(directory, file).write_text(text)
                    elif kind == "console server":
                        for command, lines in commands(text):
                            terminal.serve(command, lines)
                    elif kind == "console":
                        for command, lines in commands(text):
                            self.expect(terminal, command, lines)
            finally:
                failed = terminal.close()
            self.assertEqual(failed, [])

    def expect(self, terminal, command, lines):
        """Types a command; if it succeeds and prints something else, again after a moment."""
        deadline = time.monotonic() + RETRIES_S
        first = None
        while True:
            ended = terminal.type(command)
            # Of a line that is overwritten, a reader sees the end.
            printed = re.sub(r"[^\n]*\r(?!\n)", "", ended.stdout.decode()).replace("\r", "")
            first = first or printed
            if ended.returncode == 0 and re.fullmatch(pattern(lines), printed):
                return
            if ended.returncode != 0 or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        expected = "\n".join(lines)
        self.fail(
            f"$ {command}\nended with {ended.returncode}; expected:\n{expected}\n\nprinted:\n{first}"
        )


def add(page):
    needed = re.search(r"^<!-- needs: (.*) -->$", page.read_text(), re.M)
    programs = needed[1].split() if needed else []

    def test(self):
        missing = [name for name in programs if not shutil.which(name)]
        if "root" in programs:
            missing = [name for name in missing if name != "root" or os.geteuid() != 0]
        if missing and os.environ.get("CI") != "true":
            self.skipTest(f"{', '.join(missing)}: not on PATH")
        self.follow(page)

    setattr(Tutorials, "test_" + page.stem.replace("-", "_"), test)


for tutorial in PAGES:
    add(tutorial)

if __name__ == "__main__":
    unittest.main()
