"""The web server of `kgcal serve`: a JSON API and a page for people, over one calibrated model or calibrator of scores.

follow.py          the model of a server, loaded anew when another one answers; the calibrator of a scorer
model.py           the model of a graph
requests.py        the types of requests, and the sentences for invalid ones
limits.py          the limit on the size of a body
application.py     what both kinds of servers have: pages, errors, answers to files
api.py             the addresses
errors.py          the answers to invalid requests
server.py          runs the server
names.py           the completion of names
frame.html         what the pages at `/` have in common
page.html          the page of a graph
scores.html        the page of a scorer
docs.html          the OpenAPI page at `/docs`, which needs no other host

The answers come from kgcore/prediction and kgcore/external. The command is in flows/cli/commands/serving.py.
"""
