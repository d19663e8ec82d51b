"""The mixture of candidates: what unlabelled triples say about their base rate and about their mistakes.

The scores of candidates are a mixture of the scores of true triples and of mistakes. This package fits the weights of
the mixture. It sees scores only: no model, no graph, no calibrator.

* samples.py holds the scores of a fit: positives, corruptions of each strategy, candidates, labelled candidates.
* clusters.py computes the design effect: how much dependence between rows enlarges a variance.
* bins.py counts scores in bins.
* em.py finds the greatest likelihood, for many problems at once.
* interval.py computes the confidence interval of the base rate. strength.py corrects it where the likelihood is flat,
  and level.py where some strategies have no share.
* draws.py draws bootstrap replicates.
* goodness.py tests whether the candidates contain mistakes that no strategy resembles.
* remainder.py takes the scores of mistakes from the candidates themselves. This needs a stated base rate.
* relations.py estimates the base rate by relation.
* labels.py estimates a base rate from labels alone, and says how many labels are needed.
* fit.py does all of this, and returns a MixtureFit. result.py defines it, and writes it as JSON.

kgcore/calibration/mixed.py fits calibrators to the result.
"""
