"""Calibration: maps from scores to probabilities.

Each calibrator has its own file. The other files:

* base.py holds the abstract class that every calibrator implements, and makes each one a scikit-learn classifier.
* sample.py builds the samples that calibrators are fitted on, and draws from them; balance.py weights them to a base
  rate in each relation, and moves probabilities to another one; audit.py describes a sample.
* hidden.py estimates how many corruptions are true, and which of them likely are; hidden_evidence.py learns evidence
  about it.
* fit.py fits all configured calibrators to a score table. It makes every calibrated thing, of the class in
  calibrated.py: a fitted map with its scorer, its graph and its base rate.
* combine.py fits calibrators that see evidence: a combiner is the scorer behind them.
* pav.py and logistic.py hold the mathematics that several calibrators share.
* band.py computes confidence limits of a probability, and support.py stores them with the counts per predicate.
* matched.py and mixed.py calibrate to a file of candidates, whose mixture kgcore/mixture fits.
* answering.py orders the calibrators by their Brier score on validation; folds.py has the cross-fitting.
* unseen_answers.py answers about triples with entities that training has not seen, from their names.
* baselines/ holds simple maps that calibrators are compared with.

kgcore/metrics and kgcore/evaluation measure how well the probabilities are calibrated.
"""
