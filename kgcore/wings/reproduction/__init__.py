"""The paper's published values, and the comparison of our results with them.

grid.py      the runs that the paper's tables need
compare.py   the published values, and ours beside them in one table
page.py      the HTML page of the comparison, its plots, and the paper's claims, tested on our results
"""
