"""The hash function for keys. A key is a hash of everything that a result depends on."""

import hashlib
import json


def digest(value: object) -> str:
    """Return the sha256 of a JSON value, in hexadecimal. Raises TypeError for a value that JSON cannot hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
