"""Calibration: maps from scores to probabilities. It knows no evidence, no candidates and no ensembles.

Each calibrator has a file with its name; isotonic.py has the smoothed one, too. The other files:

* base.py holds the abstract class that every calibrator implements, makes each one a scikit-learn classifier, and has
  the baselines, simple maps that calibrators are compared with.
* sample.py builds the samples that calibrators are fitted on, weights them to a base rate in each relation, draws from
  them, and moves probabilities to another base rate.
* hidden.py estimates how many corruptions are true, and which of them likely are.
* fit.py fits all configured calibrators to a score table. It makes every calibrated thing, of the class in
  calibrated.py: a fitted map with its scorer, its graph and its base rate. A scorer with evidence, candidates and
  answers about unseen entities are known there by protocols; kgcore/combiners and kgcore/mixture implement them.
* logistic.py holds the fits that several calibrators share.
* support.py computes confidence limits, and stores them with the counts per predicate.
* validation.py has the cross-fitting, and orders the calibrators by their Brier score on validation.

kgcore/measure/metrics and kgcore/measure/evaluation measure how well the probabilities are calibrated.
"""
