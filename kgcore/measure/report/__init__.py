"""Reports of measured results, as JSON, Markdown and HTML. This folder measures nothing but graphs.

result.py                                    what a job shows: tables, sentences, files
results.py, summary.py, ensemble_summary.py  the measured results, their JSON and tables; the metrics of each table
plots.py                                     plots
page.py                                      the HTML report of a pipeline
race.py, card.py                             the table of a race; the model card
data.py                                      names of counts; the templates of HTML pages
graph_findings.py, curation.py               the data report: shape, findings, the page; what a curator would mend
scores.py                                    the results and the HTML report of a calibration of scores
"""
