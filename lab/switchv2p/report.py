"""The report: each figure and table beside the paper's statements, with deviations."""

import html
from pathlib import Path

from lab.library.page import document, heading, picture, table, verdicts
from lab.switchv2p import tables


def page(paper, shown, judged, conditions):
    """The HTML page. `shown`: each experiment with its records, its table and its picture."""
    said = "; ".join(f"{key} {value}" for key, value in conditions.items())
    parts = [
        f"<h1>{html.escape(paper['title'])}, repeated with enroute</h1>",
        f"<p>Conditions: {html.escape(said)}.</p>", METHOD,
    ]
    for experiment, records, numbers, drawn in shown:
        parts.append(heading(experiment.title, experiment.name))
        if experiment.name in paper["stated"]:
            parts.append(f"<p><b>The paper says:</b> {html.escape(paper['stated'][experiment.name])}"
                         "</p>")
        if drawn:
            parts.append(picture(drawn, experiment.name, experiment.title))
        sentence = deviation(experiment, records)
        if sentence:
            parts.append(f"<p><b>Here:</b> {html.escape(sentence)}</p>")
        parts += verdicts(judged, experiment.name)
        parts.append(f"<details><summary>Numbers</summary>{table(numbers)}</details>"
                     if drawn else table(numbers))
    return document("SwitchV2P", parts)


METHOD = (
    "<p>Every run is simulated packet by packet by <code>enroute fabric</code>. <b>published</b> "
    "follows the authors' code, from which the paper's figures come, quirk by quirk; <b>paper</b> "
    "follows the paper's text. Diamonds are the authors' own simulator, run again on the first "
    "20,000 flows of their Hadoop trace. Traces that are not available are generated from the "
    "statistics that the paper states: compare the shape and the order of their curves, not the "
    "values.</p>"
)


def deviation(experiment, records):
    """The paper's statements compared with our runs, as text."""
    if not records:
        return "drawn by an earlier run, whose raw results are not available."
    return OF_KIND.get(experiment.kind, lambda _: "")(records)


def best(records, scheme, key):
    """Largest improvement of a scheme over NoCache, under the published rules."""
    factors = []
    for each in records:
        base = tables.baseline(records, each)
        if each["scheme"] == scheme and each["model"] == "published" and base and each[key]:
            factors.append(base[key] / each[key])
    return max(factors, default=float("nan"))


def cache_sizes(records):
    fct, first = "fct_us", "first_packet_latency_us"
    sentences = [
        f"At best, SwitchV2P's FCT is {best(records, 'switchv2p', fct):.1f} times and its first "
        f"packet latency {best(records, 'switchv2p', first):.1f} times better than NoCache's."
    ]
    if any(each["scheme"] == "direct" for each in records):
        sentences.append(
            f"Direct, the upper bound: {best(records, 'direct', fct):.1f} and "
            f"{best(records, 'direct', first):.1f} times."
        )
    published = [each for each in records if each["model"] == "published"]
    worse = [
        f"{other['scheme']} at {other['cache']}"
        for each in published if each["scheme"] == "switchv2p"
        for other in published
        if other["scheme"] in ("locallearning", "gwcache", "bluebird")
        and other["cache"] == each["cache"] and other["topology"] == each["topology"]
        and other[fct] < each[fct]
    ]
    sentences.append(
        "No switch-based scheme has a better FCT at the same cache size." if not worse
        else f"Better FCT than SwitchV2P at the same cache size: {', '.join(worse)}."
    )
    return " ".join(sentences)


def ratios(records, scheme, of, model="published"):
    named = {each["scheme"]: each for each in records if each["model"] == model}
    if scheme not in named or "switchv2p" not in named:
        return float("nan")
    return of(named[scheme]) / of(named["switchv2p"])


def pods(records):
    def total(each):
        return sum(each["switch_bytes"])
    hops = {each["scheme"]: each["packet_hops"] for each in records if each["model"] == "published"}
    passed = ", ".join(f"{name} {value:.1f}" for name, value in hops.items())
    direct = 1 / ratios(records, "direct", total)
    return (
        f"Bytes of all switches: NoCache {ratios(records, 'nocache', total):.2f} and GwCache "
        f"{ratios(records, 'gwcache', total):.2f} times SwitchV2P's, SwitchV2P {direct:.3f} times "
        f"Direct's. Mean number of switches on a packet's path: {passed}. Under the rules of the "
        f"text, NoCache has {ratios(records, 'nocache', total, 'paper'):.2f} times SwitchV2P's bytes."
    )


def switches(records):
    def last(each):
        return each["switch_bytes"][-1]
    return (
        f"Bytes of the gateway ToR: NoCache {ratios(records, 'nocache', last):.1f} and GwCache "
        f"{ratios(records, 'gwcache', last):.1f} times SwitchV2P's."
    )


def gateways(records):
    """FCT with 4 gateways compared with 40."""
    def lost(scheme):
        runs = {Path(each["topology"]).stem: each for each in records if each["scheme"] == scheme}
        if not {"ft8-10k", "gateways-4"} <= runs.keys():
            return float("nan")
        return (runs["gateways-4"]["fct_us"] / runs["ft8-10k"]["fct_us"] - 1) * 100

    return (
        f"With 4 gateways instead of 40 the FCT of SwitchV2P is {lost('switchv2p'):.0f} % longer, of "
        f"GwCache {lost('gwcache'):.0f} %, of NoCache {lost('nocache'):.0f} %, of LocalLearning "
        f"{lost('locallearning'):.0f} %. In the published code only the link limits a gateway."
    )


def migration(records):
    return (
        "Rows that do not depend on random numbers equal the reference's exactly. The other rows "
        "depend on which packets trigger learning packets; tests check them over many seeds."
    )


def layers(records):
    def core(model):
        of_model = [each for each in records if each["model"] == model]
        hits = sum(each[layer]["hits"] for each in of_model for layer in tables.LAYERS)
        return sum(each["core"]["hits"] for each in of_model) / max(hits, 1) * 100

    return (
        f"Hits at cores over all these traces: {core('published'):.1f} % under the rules of the code, "
        f"{core('paper'):.1f} % under those of the text. If spines may answer (§3.1), few hits remain "
        "for cores. The last table of this page has the effect of each quirk."
    )


def quirks(records):
    whole = next((each for each in records if not each["quirks"]), None)
    if whole is None:
        return ""
    changes = sorted(
        ((each["fct_us"] / whole["fct_us"] - 1) * 100, *each["quirks"])
        for each in records if len(each["quirks"]) == 1
    )
    largest = sorted(changes, key=lambda change: -abs(change[0]))[:4]
    said = ", ".join(f"{name} {change:+.1f} %" for change, name in largest)
    return (
        f"Largest changes of SwitchV2P's mean FCT when one quirk is omitted: {said}. With one seed, "
        "changes below 1 % are noise."
    )


OF_KIND = {"cache-sizes": cache_sizes, "pods": pods, "switches": switches, "gateways": gateways,
           "migration": migration, "layers": layers, "quirks": quirks}
