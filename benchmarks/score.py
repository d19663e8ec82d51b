"""Measure how many triples a second every model scores.

    python benchmarks/score.py [--dataset wn11] [--model transe] [--k 100] [--triples 1000000] [--json]

Triples are drawn at random, so that their embeddings are anywhere in the table. Prints the median of the rounds.
`compile_s` is the extra time of the first call in this process. `peak_rss_mb` includes PyTorch itself.
"""

import numpy as np
from cases import graph_of, parsed, random_model, report, seconds_of

FIRST = 2048  # triples of the warm-up


def main() -> None:
    options = parsed("million scored triples a second", triples=1_000_000)
    graph, rng = graph_of(options), np.random.default_rng(0)
    sizes = len(graph.entities), len(graph.predicates), len(graph.entities)
    triples = np.stack([rng.integers(size, size=options.triples) for size in sizes], axis=1)
    for name in options.model:
        trained = random_model(name, options, graph)
        seconds, first = seconds_of(
            lambda trained=trained: trained.score(triples),
            options.rounds,
            lambda trained=trained: trained.score(triples[:FIRST]),
        )
        millions = len(triples) / seconds / 1e6
        figures = {"benchmark": "score", "model": name, "triples": len(triples), "mtriples_per_s": round(millions, 3)}
        text = f"{name:14} {millions:8.3f} million triples a second"
        report(options, figures | {"compile_s": round(first, 2)}, text)


if __name__ == "__main__":
    main()
