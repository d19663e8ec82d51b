"""Calibration: maps from scores to probabilities.

Each calibrator has its own file. The other files:

* base.py holds the abstract class that every calibrator implements, and makes each one a scikit-learn classifier.
* sample.py builds the samples that calibrators are fitted on, balance.py weights them to a base rate in each relation,
  and audit.py describes such a sample. even.py draws negatives so that their weights are equal.
* hidden.py estimates how many corruptions are true, and which of them likely are.
* fit.py fits all configured calibrators to a score table.
* pav.py, logistic.py, steps.py and effective.py hold the mathematics that several calibrators share. shrinkage.py fits
  the slopes and offsets of relations.
* band.py computes confidence limits of a probability, and support.py stores them with the counts per predicate.
* thin.py finds samples that are too small for high probabilities.
* bound.py stores a fitted calibrator together with the fingerprints of its model and its graph.
* matched.py and mixed.py calibrate to a file of candidates, whose mixture kgcore/mixture fits. windows.py has their
  confidence limits.
* answering.py orders the calibrators by their Brier score on validation; folds.py has the cross-fitting.
* unseen_answers.py answers about triples with entities that training has not seen, from their names.
* shift.py moves probabilities to another base rate.
* baselines/ holds simple maps that calibrators are compared with.

kgcore/metrics and kgcore/evaluation measure how well the probabilities are calibrated.
"""
