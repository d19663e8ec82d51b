"""Answers of a calibrated model to questions about triples: score, probability, interval, decision.

answers.py     answers the triples of a block, and marks candidates so that few of the marked ones are false
sink.py        writes the answers to a file, in blocks
question.py    the known parts of the missing facts that are asked for; the message for unknown names
pairs.py       searches all pairs of subjects and objects of a predicate for the best ones
domains.py     the candidates: entities that can be the subject and the object of a predicate
queries.py     scores queries with all candidates for their answers
selection.py   selects missing facts so that few of them are false
answer_sets.py makes answer sets that contain the true answer with a chosen probability, and measures them
discovery.py   lists of missing facts that need no base rate, and entities that are in too many of their answers

explanation.py explains the probability of one triple, in numbers and sentences; explainer.py makes it, with
calibration_evidence.py  the calibration triples behind it, and the calibration curve of its predicate
similar.py     its rank among other subjects and other objects, and the known facts that resemble it

For files, memory is bounded by the size of a block. The calibrated model itself is kgcore/answer/calibrated_model.py;
loaded.py is one that answers, and measured.py one that also has all calibrators of its fit, and their metrics on test.
"""
