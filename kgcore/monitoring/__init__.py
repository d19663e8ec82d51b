"""Monitoring of a calibrated model after it is chosen.

* exam.py has the frozen triples on which champion and challengers are compared, exam_file.py their file.
* gate.py tests whether a challenger may replace the champion, with the statistics of paired.py. unseen.py has the
  variance that is expected if the challenger is not better, which rare triples have. spending.py divides the
  level among the sittings of an exam, the comparisons of candidates on it.
* drift.py checks a model on newly labelled triples, and corrects p-values for many checks. findings.py says what was
  found, and what to do.
* moves.py tests whether the base rate or the map has moved since calibration. two_samples.py makes the table that it
  is fitted on, score_basis.py the curves of the score, and penalised.py fits them.
* stability.py has the population stability index of the scores.
"""
