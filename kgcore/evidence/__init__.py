"""Evidence about triples: what the model and the training facts know of a triple, beside its score.

base.py says what a feature is, of a triple and of all pairs of a tile; table.py computes all features of a table of
triples, and of a tile. lookup.py and words.py are what groups are made with. Each other file has groups of features,
with their definition, their cost, and what could make them misleading. Only training facts are used, and a triple that
is itself a training fact is left out of its own evidence. kgcore/combiners turns evidence into log-odds.

The groups of names.py, name_pairs.py and name_embeddings.py read the words of names (words.py). They and `degrees` also
see entities that training lacks: `NamedEvidence` makes their evidence, and kgcore/combiners/unseen.py answers for them.

One group needs more than graph and model: `other_scores`, further models.
"""
