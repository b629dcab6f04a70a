"""Measurements as a perfect path and a small fixed cost would give them."""

from lab.vnf_cache import results, workload

HIT_COST_MS, MISS_COST_MS = 0.3, 1.2


def measure(paper, directory, runs=None):
    for run in runs or paper.runs:
        for number in results.missing_batches(directory, run):
            results.write_batch(directory, batch(paper, run, number))


def batch(paper, run, number):
    stored = workload.Replay(run.capacity)
    for before in range(1, number):
        for key, _ in paper.batch_keys(run, before):
            stored.read(key)
    rows, at_s, hits = [], 0.0, 0
    pairs = paper.batch_keys(run, number)
    for key, recorded in pairs:
        hit = stored.read(key)
        hits += hit
        spread = (len(rows) % 7) / 100
        latency = (run.hit_rtt_ms + HIT_COST_MS if hit else run.miss_rtt_ms + MISS_COST_MS) + spread
        if recorded:
            outcome = "hit" if hit else "miss" if run.capacity else "direct"
            rows.append(results.Row(len(rows) + 1, key, outcome, latency, at_s))
        at_s += latency / 1000
    counted = (hits, len(pairs) - hits) if run.capacity else (0, 0)
    return results.Batch(run, number, rows, at_s, counted, hits, 1.0)
