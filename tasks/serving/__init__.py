"""The web server of `kgcal serve`: a JSON API and a page for people, over one calibrated model or calibrator of scores.

api.py             runs the server; its addresses, pages, errors, hosts, answers to files
limits.py          what a request may take: bytes, rows, time, threads
model.py           what a server asks, loaded anew when another one answers; the completion of names
requests.py        the types of requests, and the sentences for invalid ones
frame.html         what the pages at `/` have in common
page.html          the page of a graph
scores.html        the page of a scorer
docs.html          the OpenAPI page at `/docs`, which needs no other host

The answers come from kgcore/answer and kgcore/wings/external. The command is in flows/cli/commands/services.py.
"""
