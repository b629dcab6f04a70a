"""Clients at once, as the tests of the state layer know them."""

import sys
import threading


def run(work, count):
    """Prints that it has begun, and calls `work` with each number below `count`, each in its own
    thread. Exits with the errors of all threads, if any."""
    wrong = []

    def one(number):
        try:
            work(number)
        except BaseException as error:  # whatever it is, the test is to hear of it
            wrong.append(f"client {number}: {error!r}")

    print("begun", flush=True)
    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        sys.exit("\n".join(wrong))
