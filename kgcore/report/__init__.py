"""Reports of measured results, as JSON, Markdown and HTML. This folder measures nothing but graphs.

results.py, summary.py, ensemble_summary.py  the measured results, their conversion to JSON, and tables in Markdown
columns.py                                   the metrics that each table shows
result.py                                     what a job shows: tables, sentences, files
plots.py                                     plots
html.py                                      the templates of HTML pages
page.py                                      the HTML report of a pipeline
race.py, card.py                             the table of a race; the model card
graph_shape.py, graph_findings.py            the data report: the measures of a graph; the findings and the page
scores.py                                    the results and the HTML report of a calibration of scores
explanation.py                               the HTML page that explains a probability
"""
