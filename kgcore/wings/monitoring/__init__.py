"""Monitoring of a calibrated model after it is chosen.

* exam.py has the frozen triples on which champion and challengers are compared.
* gate.py tests whether a challenger may replace the champion, with the statistics of paired.py, and divides the level
  among the sittings of an exam, the comparisons of candidates on it.
* drift.py checks a model on newly labelled triples, says what was found, and what to do.
* moves.py tests whether the base rate or the map has moved since calibration. two_samples.py makes the table that it
  is fitted on, and fits it.
"""
