import contextlib
import gzip
import io
import itertools
import json
import tempfile
import tomllib
import unittest
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

from lab.library import claims, command, processes
from lab.switchv2p import experiment, figures, report, tables, traces
from lab.switchv2p.__main__ import drawn
from lab.tests.test_claims import not_run


def record(**changes):
    """A run's result with plausible numbers."""
    layer = {"bytes": 1000, "hits": 10, "first_hits": 1}
    return {
        "scheme": "switchv2p", "topology": "ft8-10k", "trace": "hadoop", "digest": "0",
        "cache": "50%", "cache_entries": 5120, "model": "published", "quirks": {},
        "transport": "cubic", "migrations": [], "learn_probability": 0.005,
        "controller_interval_us": 0.0, "seed": 1, "share": 1.0, "packets_sent": 1000, "gateway_packets": 100,
        "hit_rate": 0.9, "fct_us": 100.0, "first_packet_latency_us": 20.0,
        "packet_latency_us": 12.0, "packet_hops": 5.0, "learning_packets": 3,
        "invalidation_packets": 0, "misdelivered": 30, "last_misdelivered_us": 560.0,
        "core": layer, "spine": layer, "tor": layer, "switch_bytes": [10**9] * 80,
    } | changes


class Fabric(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)
        self.paper = experiment.paper()
        self.artifact = self.directory / "datasets"
        self.artifact.mkdir()
        patched = mock.patch.object(traces, "DIRECTORY", self.artifact)
        self.addCleanup(patched.stop)
        patched.start()

    def store(self, name, rows):
        with gzip.open(self.artifact / f"{name}.csv.gz", "wt") as file:
            file.writelines(rows)

    def test_every_data_file_is_drawn_from_its_own_records(self):
        drawn = set()
        self.store("hadoop", ["1,2,3,4,5\n"])
        for short in (True, False):
            for each in experiment.load([], short):
                ours = list(runs_of(each))
                others = [record(scheme="bluebird", trace="another"), ours[0] | {"share": 0.07}]
                records = each.records([*ours, *others])
                self.assertEqual(records, ours, each.name)
                self.assertEqual(len(records), each.runs(), each.name)
                header, rows = tables.table(each, records, self.paper)
                self.assertTrue(all(len(row) == len(header) for row in rows), each.name)
                picture = None
                if each.kind in figures.OF_KIND and each.kind not in drawn:
                    drawn.add(each.kind)
                    picture = figures.draw(each, records, self.paper, self.directory)
                    ElementTree.fromstring(picture)
                command.write(self.directory / f"{each.name}.csv", (header, rows))
                page = report.page(self.paper, [(each, records, (header, rows), picture)], [], {})
                self.assertIn(each.title.split(":")[0], page)
            # Short runs have the first flows of the Hadoop trace only, which Table 5 is not of.
            missing = not_run(claims.items("switchv2p", self.directory))
            self.assertEqual({item for item, _ in missing}, {"Table 5"} if short else set())
            self.assertTrue(all("hadoop" in says for _, says in missing), missing)

    def test_figures_of_the_authors_simulator_need_their_trace(self):
        with self.assertRaisesRegex(SystemExit, "acsl-technion/SwitchV2P.*ENROUTE_TRACES"):
            experiment.load(["reference"], True)
        reference = next(each for each in experiment.load([], True) if each.name == "reference")
        with contextlib.redirect_stdout(io.StringIO()) as said:
            experiment.run(reference, self.directory)
        self.assertIn("reference: skipped", said.getvalue())
        generated = [record(trace="hadoop", share=0.2, scheme=name) for name in reference.sweeps[0]["schemes"]]
        self.assertEqual(reference.records(generated), [])
        self.store("hadoop", ["1,2,3,4,5\n"])
        self.assertEqual(experiment.load(["reference"], True)[0].name, "reference")

    def test_files_of_the_artifact_are_given_their_protocol(self):
        rows = [f"1,2,{at},{at},5\n" for at in range(20_100)]
        self.store("hadoop", rows)
        self.store("video", rows[:2])
        for name in ("hadoop-first20000", "video", "rpc", "websearch"):
            traces.prepare(name, self.directory)
        prepared = {path.name: gzip.decompress(path.read_bytes()).decode().splitlines(keepends=True)
                    for path in (self.directory / "traces").iterdir()}
        self.assertEqual(prepared, {
            "hadoop-first20000.csv.gz": ["# protocol=tcp\n", *rows[:20_000]],
            "video.csv.gz": ["# protocol=udp\n", *rows[:2]],
        })
        self.assertEqual(traces.named("video"), ("traces/video.csv.gz", 1.0))
        self.assertEqual(traces.named("websearch"), ("websearch", 1.0))

    def test_a_file_that_is_cut_off_is_named(self):
        self.store("hadoop", ["1,2,3,4,5\n"] * 100)
        path = self.artifact / "hadoop.csv.gz"
        path.write_bytes(path.read_bytes()[:-9])
        with self.assertRaisesRegex(processes.Failed, "hadoop.csv.gz"):
            traces.prepare("hadoop", self.directory)
        self.assertFalse((self.directory / "traces" / "hadoop.csv.gz").exists())

    def test_what_has_not_all_its_runs_is_shown_as_it_was(self):
        each = experiment.load(["figure-9"], True)[0]
        raw, partial = self.directory / "raw" / "runs-1.0", list(runs_of(each))[:-1]
        raw.mkdir(parents=True)
        (raw / "results.jsonl").write_text("".join(f"{json.dumps(run)}\n" for run in partial))
        self.assertEqual(list(drawn([each], raw.parent, self.paper, self.directory)), [])
        (self.directory / "figure-9.csv").write_text("a,b\n1,2\n")
        shown = list(drawn([each], raw.parent, self.paper, self.directory))
        self.assertEqual(shown, [(each, [], (["a", "b"], [["1", "2"]]), None)])
        self.assertIn("an earlier run", report.page(self.paper, shown, [], {}))

    def test_factors_are_over_nocache(self):
        base = record(scheme="nocache", cache="0", fct_us=500.0, first_packet_latency_us=50.0)
        header, rows = tables.runs(experiment.load(["figure-9"], False)[0], [base, record()],
                                   self.paper)
        cells = dict(zip(header, rows[1], strict=True))
        self.assertEqual((cells["fct_better"], cells["first_better"]), ("5.00", "2.50"))

    def test_bytes_of_a_pod_are_its_spines_and_tors(self):
        each = record(switch_bytes=list(range(80)))
        self.assertEqual(figures.bytes_of(each, 7), [44, 45, 46, 47, 76, 77, 78, 79])

    def test_sweep_files_are_read_back_the_same(self):
        sweep = {"schemes": ["a"], "share": 0.2, "quirks": [{}, {"one-shot-vector": False}]}
        self.assertEqual(tomllib.loads(experiment.toml(sweep)), sweep)

    def test_an_unknown_figure_lists_the_known(self):
        with self.assertRaisesRegex(SystemExit, "figure-5a, .*table-4"):
            experiment.load(["figure-99"], True)


def runs_of(each):
    """A record for each point of its sweeps, as `enroute` would name it."""
    for sweep, name in [(sweep, name) for sweep in each.sweeps for name in sweep["traces"]]:
        trace = traces.named(name)[0]
        for topology in sweep.get("topologies", ["ft8-10k"]):
            for scheme in sweep["schemes"]:
                caches = sweep.get("caches", ["50%"])
                cached = scheme not in ("nocache", "direct", "ondemand")
                intervals = sweep.get("controller_interval_us", [150.0])
                for model in sweep["models"]:
                    for cache in caches if cached else ["0"]:
                        for interval, quirks in itertools.product(
                            intervals if scheme == "controller" else [0.0],
                            sweep.get("quirks", [{}]),
                        ):
                            yield record(
                                scheme=scheme, trace=trace, topology=topology, cache=cache,
                                model=model, migrations=sweep.get("migrations", []),
                                share=experiment.share(sweep),
                                controller_interval_us=interval, quirks=quirks,
                                switch_bytes=[10**9] * switches(topology),
                            )


def switches(topology):
    size = figures.dimensions({"topology": topology})
    return size["cores"] + size["pods"] * (size["spines_per_pod"] + size["racks_per_pod"])
