"""Answers of a calibrated model to questions about triples: score, probability, interval, decision.

candidates.py  reads files of candidate triples, in blocks
judged.py      reads candidates; some of them may have labels
answers.py     answers the triples of a block
few_false.py   marks candidates so that few of the marked ones are false
sink.py        writes the answers to a file, in blocks
question.py    the known parts of the missing facts that are asked for
ranked.py      ranks all answers to a query with one open side
pairs.py       searches all pairs of subjects and objects of a predicate for the best ones
best.py        keeps the best of a stream of scored pairs
discovery.py   lists of missing facts that need no base rate: those with few false facts, and answer sets
coverage.py    measures the answer sets of each predicate
domains.py     the candidates: entities that can be the subject and the object of a predicate
parts.py       work that is divided into parts
queries.py     scores queries with all candidates for their answers
selection.py   selects missing facts so that few of them are false
answer_sets.py makes answer sets that contain the true answer with a chosen probability
flyers.py      finds entities that are in more answers than expected

explanation.py    explains the probability of one triple, with
evidence.py       the calibration triples behind it
curve.py          the calibration curve of its predicate
alternatives.py   its rank among other subjects and other objects
nearest_facts.py  the known facts that resemble it
unseen_explanation.py  a triple with an entity that training has not seen, from its name
estimate.py       a probability with its interval
near_names.py     names that are spelled like an unknown one
wording.py        the explanation in sentences

For files, memory is bounded by the size of a block. The calibrated model itself is kgcore/calibrated.py.
"""
