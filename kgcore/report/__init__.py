"""Reports of measured results, as JSON, Markdown and HTML. This folder measures nothing.

results.py, summary.py, ensemble_summary.py  the measured results, and their conversion to JSON
columns.py                                   the metrics that each table shows
result.py                                     what a job shows: tables, sentences, files
plots.py                                     plots
page.py                                      the HTML report of a pipeline
race.py, card.py                             the table of a race; the model card
graph_*.py                                   the data report: shape, confidences, findings and page
scores.py                                    the results and the HTML report of a calibration of scores
explanation.py                               the HTML page that explains a probability
cells.py, comparison*.py                     the HTML page that compares a reproduction with the paper
"""
