"""The web server of `kgcal serve`: a JSON API and a page for people, over one calibrated model.

model.py     the model that answers; it is loaded anew when the champion changes
requests.py  the types of requests, and the sentences for invalid ones
limits.py    the limit on the size of a body
api.py       the addresses of the server
errors.py    the answers to invalid requests
server.py    runs the server
names.py     the completion of names
page.html    the page at `/`
docs.html    the OpenAPI page at `/docs`, which needs no other host

The answers come from kgcore/prediction. The command is in flows/cli/commands/serving.py.
"""
