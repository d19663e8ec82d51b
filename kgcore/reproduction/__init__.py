"""The paper's published values, and the comparison of our results with them.

grid.py      the runs that the paper's tables need
compare.py   the published values, and ours beside them in one table
findings.py  the paper's claims, tested on our results
page.py      the HTML page of the comparison, and its plots
"""
