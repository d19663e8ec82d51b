"""Keys: what a result depends on, as one hash."""

import hashlib
import json


def digest(value: object) -> str:
    """sha256 of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
