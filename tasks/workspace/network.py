"""Checks whether an address answers and whether a port of this machine is in use."""

import socket

import requests


def answers(url: str) -> bool:
    """Return whether a GET request to `url` is answered with status 200 within 2 seconds."""
    try:
        return requests.get(url, timeout=2).status_code == 200
    except requests.RequestException:
        return False


def port_is_taken(port: int) -> bool:
    """Return whether a program listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
