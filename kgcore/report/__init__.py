"""Reports of results. This folder measures nothing.

results.py and summary.py hold the measured results and convert them to JSON. columns.py selects the metrics of a table.
markdown.py and ensembles.py make tables, plots.py makes figures, and page.py makes an HTML page.
"""
