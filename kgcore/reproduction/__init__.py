"""The paper's published figures, and the comparison of our results with them.

paper.py: the published figures; grid.py: the runs for the paper's tables; result.py: the results of one run;
compare.py: the paper's values and our values in one table; findings.py: the paper's claims, tested on our results.
"""
