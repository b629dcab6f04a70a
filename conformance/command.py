"""Runs the commands of suites."""

import os
import signal
import subprocess


def run(command, directory, limit_s, environment):
    """Output and status of a command; it is killed with its children after `limit_s`."""
    with subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            output = process.communicate(timeout=limit_s)[0]
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            output = process.communicate()[0]
        return output, process.returncode
