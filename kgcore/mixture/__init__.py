"""The mixture of candidates: what unlabelled triples say about their base rate and about their mistakes.

The scores of candidates are a mixture of the scores of true triples and of mistakes. This package fits the weights of
the mixture, and calibrators to it.

* samples.py holds the scores of a fit: positives, corruptions of each strategy, candidates, labelled candidates. It
  counts them in bins, and computes how much dependence between rows enlarges a variance.
* em.py finds the greatest likelihood, for many problems at once, and draws bootstrap replicates.
* interval.py computes the confidence interval of the base rate, also where the likelihood is flat, and from labels
  alone; it says how many labels are needed.
* goodness.py tests whether the candidates contain mistakes that no strategy resembles.
* remainder.py takes the scores of mistakes from the candidates themselves. This needs a stated base rate.
* relations.py estimates the base rate by relation.
* fit.py does all of this, and returns a MixtureFit; matched.py adds the relations, and says in sentences what it found.
* calibrate.py fits calibrators to the result.
"""
