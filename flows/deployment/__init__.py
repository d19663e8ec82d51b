"""What makes the flows deployments: their heartbeat (flow.py), the types of their form fields (parameters.py), and what
a flow run shows of its results (publish.py).
"""
