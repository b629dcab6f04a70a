"""Builds the wheel, installs it into an environment, and compares it with `enroute fabric`."""

import csv
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from lab.library import processes
from lab.library.repository import ROOT

ENROUTE = ROOT / "target" / "debug" / "enroute"
MAKE = ROOT / ".deps" / "python" / "bin" / "maturin"
CRATE = ROOT / "crates" / "fabric-python"
EXAMPLES = ROOT / "examples" / "fabric"
LIBRARIES = Path(sys.prefix, "lib", f"python3.{sys.version_info.minor}", "site-packages")
WAIT_S = 120


def setUpModule():
    """Builds and installs once; `ef` is the module."""
    global ef, PYTHON, INSTALLED
    for program in (MAKE, ENROUTE):
        processes.need(program)
    directory = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(directory.cleanup)
    wheels, environment = Path(directory.name, "wheels"), Path(directory.name, "environment")
    build = [MAKE, "build", "--quiet", "--locked", "--profile", "dev", "--out", wheels]
    build += ["--manifest-path", CRATE / "Cargo.toml", "--target-dir", ROOT / "target"]
    told(*build)
    told(sys.executable, "-m", "venv", environment)
    PYTHON = environment / "bin" / "python"
    wheel, = wheels.iterdir()
    told(PYTHON, "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel)
    INSTALLED = environment / "lib" / LIBRARIES.parent.name / "site-packages"
    sys.path.insert(0, str(INSTALLED))
    import enroute_fabric as ef


def told(*command, cwd=None):
    """Standard output of a program that ends without an error."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def interrupted_once(condition):
    """Sends this process SIGINT, as Ctrl-C does, as soon as the condition is true."""
    def wait():
        deadline = time.monotonic() + WAIT_S
        while not condition():
            if time.monotonic() > deadline:
                return
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


class Module(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)

    def test_a_run_gives_the_bytes_of_the_command(self):
        trace = self.directory / "some.csv"
        told(ENROUTE, "fabric", "generate", "incast", "--share", "0.1", "--output", trace)
        rows = [line for line in trace.read_text().splitlines() if not line.startswith("#")]
        trace.write_text("\n".join(rows) + "\n")
        small = self.directory / "small.toml"
        small.write_text("pods = 2\nracks_per_pod = 2\nservers_per_rack = 2\nspines_per_pod = 2\n"
                         "cores = 2\nvms = 8\ngateway_racks = [0]\ngateways_per_rack = 1\n")
        rows = [f"{at % 8},{(at + 3) % 8},{at * 1000},{at},5000" for at in range(64)]
        (self.directory / "flows.csv").write_text("\n".join(rows) + "\n")
        runs = [
            ({"trace": "incast"}, []),
            ({"trace": "hadoop", "share": 0.01}, ["--share", "0.01"]),
            (
                {"trace": trace, "protocol": "udp", "cache": 960, "migrations": ["5200:68@50us"],
                 "model": "published", "quirks": {"one-shot-vector": False, "one-tag": True}},
                ["--protocol", "udp", "--cache", "960", "--migrate", "5200:68@50us", "--model",
                 "published", "--quirk", "one-shot-vector=off", "--quirk", "one-tag=on"],
            ),
            (
                {"trace": self.directory / "flows.csv", "topology": small, "scheme": "gwcache",
                 "transport": "dctcp", "learn_probability": 0.25, "seed": 2**64 - 1},
                ["--topology", small, "--scheme", "gwcache", "--transport", "dctcp",
                 "--learn-probability", "0.25", "--seed", 2**64 - 1],
            ),
        ]
        for options, words in runs:
            result = ef.run(**options)
            command = [ENROUTE, "fabric", "run", "--json", "--trace", options["trace"], *words]
            self.assertEqual(result.to_json(), told(*command).rstrip("\n"))
            self.assertGreater(result.cost["cpu_s"], 0)

    def test_a_sweep_gives_the_bytes_of_the_command_and_resumes(self):
        lists = {
            "schemes": ["nocache", "switchv2p"], "traces": ["incast"], "caches": ["10%", "50%"],
            "quirks": [{}, {"one-tag": True}], "seeds": [1, 2], "share": 0.1,
        }
        file, ours = self.directory / "experiment.toml", self.directory / "ours"
        file.write_text(
            'schemes = ["nocache", "switchv2p"]\ntraces = ["incast"]\ncaches = ["10%", "50%"]\n'
            "quirks = [{}, { one-tag = true }]\nseeds = [1, 2]\nshare = 0.1\n"
        )
        told(ENROUTE, "fabric", "sweep", file)
        theirs = file.with_suffix(".results")
        results = ef.sweep(lists, output=ours)
        self.assertEqual((results.before, results.now, len(results)), (0, 12, 12))
        for name in ("results.jsonl", "results.csv"):
            self.assertEqual((ours / name).read_bytes(), (theirs / name).read_bytes(), name)
        lines = (theirs / "results.jsonl").read_text().splitlines()
        self.assertEqual([result.to_json() for result in results], lines)
        # The command's results are found, and those that are missing are added.
        (theirs / "results.jsonl").write_text("\n".join(lines[:-2]) + "\n")
        again = ef.sweep(file, jobs=1)
        self.assertEqual((again.before, again.now), (10, 2))
        self.assertEqual(list(again), list(results))
        self.assertEqual((theirs / "results.jsonl").read_text().splitlines(), lines)

    def test_what_is_wrong_is_said_with_place_expected_and_found(self):
        trace, topology = self.directory / "bad.csv", self.directory / "bad.toml"
        trace.write_text("1,2,0,1,100\n1,2,zero,2,100\n")
        topology.write_text("pods = \n")
        cases = [
            ({"cache": "half"}, "cache", "50%", "half"),
            ({"scheme": "x"}, "scheme", "nocache", "x"),
            ({"quirks": {"x": True}}, "quirk", "one-tag", "x"),
            ({"seed": -1}, "seed", "0 to 18446744073709551615", "-1"),
            ({"share": -1.0}, "share", "above 0", "-1"),
            ({"trace": trace}, f"{trace}:2", "the start in nanoseconds", "1,2,zero,2,100"),
            ({"topology": topology}, f"{topology}:1:8", None, None),
        ]
        for options, place, expected, found in cases:
            with self.assertRaises(ef.InputError) as raised:
                ef.run(**{"trace": "incast"} | options)
            error = pickle.loads(pickle.dumps(raised.exception))
            self.assertIsInstance(error, ValueError)
            self.assertEqual((error.place, error.found), (place, found), str(error))
            if expected:
                self.assertIn(expected, error.expected)
                self.assertIn(error.expected, str(error))
        with self.assertRaisesRegex(MemoryError, "GiB of memory would be needed"):
            ef.run("incast", cache=2**36)
        with self.assertRaisesRegex(FileNotFoundError, "no.csv"):
            ef.run("no.csv")

    def test_what_is_wrong_in_a_sweep_is_said_with_its_key(self):
        right = {"schemes": ["direct"], "traces": ["incast"]}
        output, file = self.directory / "results", self.directory / "experiment.toml"
        file.write_text('traces = ["incast"]\nschemes = ["direct",\n  "x"]\n')
        topology = self.directory / "bad.toml"
        topology.write_text("pods = 0\nracks_per_pod = 2\nservers_per_rack = 2\nspines_per_pod = 2\n"
                            "cores = 2\nvms = 8\n")
        for experiment, place in [
            (right | {"schemes": ["direct", "x"]}, "schemes"),
            (right | {"caches": ["half"]}, "caches"),
            (right | {"trace": "incast"}, "trace"),
            (right | {"share": "x"}, "share"),
            ({"schemes": ["direct"]}, "experiment"),
            (file, f"{file}:3:3"),
            # Of two places, that of the mistake.
            (right | {"topologies": [topology]}, f"{topology}:1:8"),
        ]:
            with self.assertRaises(ef.InputError) as raised:
                ef.sweep(experiment, output=output)
            self.assertEqual(raised.exception.place, place, str(raised.exception))
        with self.assertRaises(ef.InputError) as raised:
            ef.sweep(right, output=output, jobs=0)
        self.assertEqual(raised.exception.place, "jobs")
        with self.assertRaisesRegex(TypeError, "needs output"):
            ef.sweep(right)
        self.assertFalse(output.exists())

    def test_ctrl_c_stops_a_run_in_progress(self):
        long = {"trace": "hadoop", "share": 0.3}
        began = time.process_time()
        ef.run(**long)
        whole_s = time.process_time() - began
        main = threading.main_thread().ident
        names = ef.run.__code__
        thread = interrupted_once(lambda: sys._current_frames()[main].f_code is names)
        began = time.process_time()
        with self.assertRaises(KeyboardInterrupt):
            ef.run(**long)
        self.assertLess(time.process_time() - began, whole_s * 0.7)
        thread.join()

    def test_ctrl_c_stops_a_sweep_which_resumes(self):
        experiment = {"schemes": ["switchv2p"], "traces": ["hadoop"], "share": 0.02,
                      "seeds": list(range(1, 21))}
        output = self.directory / "results"
        lines = output / "results.jsonl"
        thread = interrupted_once(lambda: lines.exists() and lines.read_text().count("\n") > 1)
        with self.assertRaises(KeyboardInterrupt):
            ef.sweep(experiment, output=output, jobs=2)
        thread.join()
        kept = len(lines.read_text().splitlines())
        self.assertTrue(2 <= kept < 20, kept)
        results = ef.sweep(experiment, output=output)
        self.assertEqual((results.before, results.now), (kept, 20 - kept))
        self.assertEqual([result.seed for result in results], experiment["seeds"])

    def test_attributes_are_those_that_are_declared(self):
        result = ef.run("incast", share=0.1)
        fields = result.to_dict()
        self.assertEqual({*ef.Result.__annotations__}, {*fields, "solves", "cost"})
        self.assertEqual({name: getattr(result, name) for name in fields}, fields)
        self.assertEqual(result.solves, [])
        self.assertEqual(fields["core"].keys(), ef.Layer.__annotations__.keys())
        self.assertEqual(pickle.loads(pickle.dumps(result)), result)
        self.assertNotEqual(ef.run("incast", share=0.1, seed=2), result)

    def test_tables_have_the_columns_of_the_file(self):
        processes.need(LIBRARIES / "pandas")
        output = self.directory / "results"
        experiment = {"schemes": ["nocache", "switchv2p"], "traces": ["incast"], "share": 0.1,
                      "seeds": [1, 2**63 - 1]}
        results = ef.sweep(experiment, output=output)
        with (output / "results.csv").open() as file:
            rows = list(csv.DictReader(file))
        table, frame = results.to_arrow(), results.to_pandas()
        self.assertEqual(table.column_names, list(frame.columns))
        self.assertEqual({*table.column_names} - {*rows[0]}, {"switch_bytes", "pod_bytes"})
        self.assertEqual((table.num_rows, len(frame)), (len(rows), len(rows)))
        self.assertEqual(list(frame["tor_hits"]), [result.tor["hits"] for result in results])
        for index, row in enumerate(table.to_pylist()):
            for name, text in rows[index].items():
                value = text if isinstance(row[name], str) else type(row[name])(text)
                self.assertEqual(row[name], value, name)
                self.assertEqual(frame[name][index], value, name)
        self.assertEqual(str(table.schema.field("seed").type), "uint64")
        self.assertEqual(table["switch_bytes"].to_pylist(), [each.switch_bytes for each in results])
        self.assertEqual(ef.Results([ef.run("incast", share=0.1)]).to_arrow().num_rows, 1)
        large = ef.Results([ef.run("incast", share=0.1, seed=2**64 - 1)]).to_arrow()
        self.assertEqual(large["seed"].to_pylist(), [2**64 - 1])

    def test_pandas_and_pyarrow_are_needed_by_tables_only(self):
        code = "import enroute_fabric as ef\nr = ef.Results([ef.run('incast', share=0.1)])\n"
        self.assertEqual(told(PYTHON, "-I", "-c", f"{code}print(len(r))"), "1\n")
        for call in ("to_pandas", "to_arrow"):
            with self.assertRaisesRegex(AssertionError, "ModuleNotFoundError: No module named 'p"):
                told(PYTHON, "-I", "-c", f"{code}r.{call}()")

    def test_the_examples_run(self):
        processes.need(LIBRARIES / "pandas")
        paths = f"import sys; sys.path.append({str(LIBRARIES)!r}); import runpy; "
        said = {
            path.stem: told(
                PYTHON, "-I", "-c", f"{paths}runpy.run_path({str(path)!r})", cwd=self.directory
            )
            for path in sorted(EXAMPLES.glob("*.py"))
        }
        self.assertEqual(list(said), ["cache_sizes", "one_run"])
        self.assertIn("resolved by switches", said["one_run"])
        self.assertIn("cache: expected a size as a share", said["one_run"])
        self.assertIn("14 runs, 14 of them now", said["cache_sizes"])
        self.assertIn("pod_bytes: list<element: uint64>", said["cache_sizes"])


if __name__ == "__main__":
    unittest.main()
