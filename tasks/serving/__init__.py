"""The web server of `kgcal serve`: a JSON API and a page for people, over one calibrated model.

follow.py          the model of a server, loaded anew when another one answers
model.py           the model of a graph
scores.py          the calibrator of a scorer
requests.py        the types of requests, and the sentences for invalid ones
score_requests.py  the types of requests to the server of a scorer
limits.py          the limit on the size of a body
application.py     what both servers have: pages, errors, answers to files
api.py             the addresses of the server of a graph
score_api.py       the addresses of the server of a scorer
errors.py          the answers to invalid requests
server.py          runs the server
names.py           the completion of names
page.html          the page at `/` of a graph
scores.html        the page at `/` of a scorer
docs.html          the OpenAPI page at `/docs`, which needs no other host

The answers come from kgcore/prediction and kgcore/external. The command is in flows/cli/commands/serving.py.
"""
