"""Reports of results: tables in Markdown (markdown.py, ensembles.py), figures (plots.py), and HTML pages (page.py,
comparison.py). Nothing here measures anything.
"""
