"""The paper's published figures, and the comparison of our results with them.

paper.py: the published figures; grid.py: the runs behind the paper's tables; result.py: what a run contributes;
compare.py: the paper's value and ours in one table; findings.py: the paper's claims, tested on our results.
"""
