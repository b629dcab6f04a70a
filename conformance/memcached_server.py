"""Runs memcached for its own tests, with the cache before it if $ENROUTE names the program.

Arguments: those of memcached. The cache listens at the port that they state.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time

SERVER = "memcached"
# With these there is no listener of the text protocol to put the cache before.
WITHOUT_LISTENER = ("-h", "-V", "-i", "-d", "-s", "-S", "-B")
CONNECTED_S = 20
# The tests give it to every server. Debian's memcached has no sandbox, and refuses the option.
UNKNOWN = "relaxed_privileges"
PR_SET_PDEATHSIG = 1


def main():
    end_with_parent()
    arguments = sys.argv[1:]
    if UNKNOWN in arguments:
        place = arguments.index(UNKNOWN)
        del arguments[place - 1 : place + 1]
    if arguments == ["-h"]:
        # Without Unix sockets the tests connect over TCP.
        text = subprocess.run([SERVER, "-h"], capture_output=True, text=True).stdout
        print("\n".join(line for line in text.splitlines() if "unix-socket" not in line))
        return
    cache = os.environ.get("ENROUTE")
    is_plain = "-p" in arguments and not any(option in WITHOUT_LISTENER for option in arguments)
    if not cache or not is_plain:
        os.execvp(SERVER, [SERVER, *arguments])
    place = arguments.index("-p") + 1
    asked, behind = arguments[place], str(free_port())
    arguments[place] = behind
    server = subprocess.Popen([SERVER, *arguments], preexec_fn=end_with_parent)
    children = [server]

    def pass_on(number, _):
        for child in children:
            child.send_signal(number if child is server else signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, pass_on)
    if is_connected(server, int(behind)):
        urls = "--listen", f"memcached://127.0.0.1:{asked}", "--origin", f"memcached://127.0.0.1:{behind}"
        command = [cache, "cache", *urls]
        children.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=end_with_parent))
    status = server.wait()
    for child in children[1:]:
        child.terminate()
        child.wait()
    sys.exit(status if status >= 0 else 128 - status)


def end_with_parent():
    """Ends this process with its parent: a test that is killed stops no server."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def is_connected(server, port):
    """Waits until the server accepts connections, or ends: some tests give it wrong options."""
    deadline = time.monotonic() + CONNECTED_S
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        except OSError:
            time.sleep(0.05)
    return False


if __name__ == "__main__":
    main()
