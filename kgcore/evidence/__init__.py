"""Evidence about triples: what the model and the training facts know of a triple, beside its score.

base.py says what a feature is; table.py computes all features of a table of triples, and of all pairs of a tile
(tile.py). links.py, lookup.py and words.py are what groups are made with. Each other file is one group of features,
with its definition, its cost, and what could make it misleading. Only training facts are used, and a triple that is
itself a training fact is left out of its own evidence. kgcore/combiners turns evidence into log-odds.

The groups name_*.py read the words of names (words.py). They and degrees.py also see entities that training lacks:
`NamedEvidence` makes their evidence, and kgcore/calibration/unseen_answers.py answers for them.

One group needs more than graph and model: other_scores.py, further models.
"""
