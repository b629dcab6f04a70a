import os
import select
import signal
import subprocess
import sys
import unittest

from lab.library import processes, repository

SAYS = "import time; print('listening on 127.0.0.1:4711', flush=True); {}; time.sleep(600)"


def python(code="pass"):
    return sys.executable, "-c", SAYS.format(code)


class Processes(unittest.TestCase):
    def test_address_is_read_from_the_output(self):
        with processes.running(*python()) as program:
            self.assertEqual(program.address(), "127.0.0.1:4711")
        self.assertEqual(program.process.returncode, -signal.SIGTERM)

    def test_counters_wait_until_every_request_is_counted(self):
        lines = "print('hits=1 misses=2 items=2'); print('hits=3 misses=2 items=2', flush=True)"
        with processes.running(*python(lines)) as program:
            self.assertEqual(program.counters(5), (3, 2))

    def test_program_that_ends_is_an_error_with_its_output(self):
        with processes.running(sys.executable, "-c", "print('no room')") as program:
            with self.assertRaisesRegex(RuntimeError, "no room"):
                program.address()

    def test_programs_die_with_a_process_that_is_killed(self):
        code = (
            "import sys, time; from lab.library import processes, repository;"
            f"program = processes.Program({list(python())!r});"
            "program.address(); print(program.process.pid, flush=True); time.sleep(600)"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code], cwd=repository.ROOT, stdout=subprocess.PIPE, text=True
        ) as parent:
            child = int(parent.stdout.readline())
            parent.kill()
        self.assertTrue(ends(child))


def ends(pid):
    """Whether the process has ended, or ends soon."""
    try:
        watch = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watch], [], [], 30)[0])
    finally:
        os.close(watch)


if __name__ == "__main__":
    unittest.main()
