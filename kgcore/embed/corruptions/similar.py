"""Similar corruption: an entity whose training facts resemble those of the true entity."""

import numpy as np
from scipy.sparse import csr_matrix, diags_array

from kgcore.arrays import Floats, Ints, Triples
from kgcore.data.graph import KnowledgeGraph
from kgcore.embed.corruptions.choice import RatedStrategy
from kgcore.embed.corruptions.typed import Typed
from kgcore.registries import STRATEGIES

DIMENSIONS = 32
DENSE = 200  # up to so many entities the decomposition is that of a dense matrix
WIDE = 2**21  # from so many features on, V is not computed: it would take more memory than everything else
TOLERANCE = 1e-6  # relative error of the squared singular values of a wide matrix


@STRATEGIES.register("similar")
class Similar(RatedStrategy):
    """A strategy that draws 20 typed corruptions and keeps the entity that is most similar to the true one.

    Two entities are similar if they have the same neighbours by the same predicates, and the same predicates: the
    cosine of their rows of `entity_vectors`. Training facts are excluded. 20 is the default of `candidates`.

    These are hard negatives that need no model, so all models and ensembles can have the same ones. Like near misses,
    they contain more true triples than typed corruptions: read the audit.
    """

    by_model = False

    def __init__(self, graph: KnowledgeGraph, candidates: int = 20) -> None:
        super().__init__(graph, Typed(graph), candidates)
        self._known = graph.index(graph.train.positives)
        self._vectors = entity_vectors(graph)

    def rate(self, triples: Triples, column: int, offered: Ints) -> Floats:
        corrupted = np.repeat(triples, offered.shape[1], axis=0)
        corrupted[:, column] = offered.ravel()
        replaced = self._vectors[triples[:, column]]
        cosines: Floats = np.einsum("nk,nmk->nm", replaced, self._vectors[offered])
        return np.where(self._known.contains(corrupted).reshape(offered.shape), -np.inf, cosines)


def entity_vectors(graph: KnowledgeGraph) -> Floats:
    """Return a vector of length 1 for each entity, by latent semantic analysis of its training facts: (E, k).

    Entity e has a feature for each (side, predicate, neighbour) and each (side, predicate) of its facts. A feature of n
    entities has the weight log(1 + E / n). The vectors are the rows of U S in the truncated singular value
    decomposition U S V' of this matrix, with k = DIMENSIONS or fewer. Deerwester et al., "Indexing by Latent Semantic
    Analysis", JASIS 1990. Memory: four numbers for each training fact.
    """
    facts, size, predicates = graph.train.positives, len(graph.entities), len(graph.predicates)
    s, p, o = facts.T
    features = np.concatenate([p * size + o, (predicates + p) * size + s, 2 * predicates * size + p])
    features = np.r_[features, (2 * size + 1) * predicates + p]
    names, place = np.unique(features, return_inverse=True)
    holders = np.r_[s, o, s, o]
    table = csr_matrix((np.ones(len(place)), (holders, place)), shape=(size, len(names)))
    table.data[:] = 1.0
    table = table @ diags_array(np.log1p(size / np.asarray(table.sum(axis=0)).ravel()))
    if size <= DENSE:
        u, values, _ = np.linalg.svd(table.toarray(), full_matrices=False)
    else:
        # slow to load; a cached run asks this module for `by_model` alone
        from scipy.sparse.linalg import LinearOperator, eigsh, svds

        rank, start = min(DIMENSIONS, min(table.shape) - 1), np.sqrt(np.arange(1.0, min(table.shape) + 1))
        if len(names) < WIDE:
            u, values, _ = svds(table, k=rank, v0=start)
        else:
            squared = LinearOperator((size, size), lambda vector: table @ (table.T @ vector), dtype=np.float64)
            values, u = eigsh(squared, k=rank, v0=start[:size], tol=TOLERANCE)
            values = np.sqrt(np.maximum(values, 0.0))
    largest = np.argsort(-values)[:DIMENSIONS]
    vectors = u[:, largest] * values[largest]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Floats = vectors / np.maximum(lengths, 1e-12)
    return unit
