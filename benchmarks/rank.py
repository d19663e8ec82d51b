"""Measure the time of filtered ranks, subjects and objects, for every model.

    python benchmarks/rank.py [--dataset wn11] [--model transe] [--k 100] [--triples 1000] [--json]

Prints the seconds per 1,000 test triples, each ranked as subject and as object among all entities: the median of the
rounds. `compile_s` is the extra time of the first call in this process. `peak_rss_mb` includes PyTorch itself.
"""

from cases import graph_of, parsed, random_model, report, seconds_of

from kgcore.embed.ranking import filtered_ranks

FIRST = 256  # triples of the warm-up


def main() -> None:
    options = parsed("seconds per 1,000 filtered ranks", triples=1000)
    graph = graph_of(options)
    triples, known = graph.test.positives[: options.triples], graph.all_known
    for name in options.model:
        trained = random_model(name, options, graph)
        seconds, first = seconds_of(
            lambda trained=trained: filtered_ranks(trained, triples, known),
            options.rounds,
            lambda trained=trained: filtered_ranks(trained, triples[:FIRST], known),
        )
        per_thousand = 1000 * seconds / len(triples)
        figures = {"benchmark": "rank", "model": name, "triples": len(triples), "s_per_1000": round(per_thousand, 4)}
        text = f"{name:14} {per_thousand:8.3f} s per 1,000 triples among {len(graph.entities):,} entities"
        report(options, figures | {"compile_s": round(first, 2)}, text)


if __name__ == "__main__":
    main()
