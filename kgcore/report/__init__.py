"""Reports of results. Nothing here measures anything.

results.py and summary.py hold what was measured, as it is stored in JSON, columns.py which metrics a table shows.
markdown.py and ensembles.py make tables, plots.py figures, and page.py an HTML page.
"""
