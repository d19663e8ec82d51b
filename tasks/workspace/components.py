"""The names of all components: models, losses, calibrators and others."""

from kgcore import registries
from kgcore.registry import Registry


def components() -> dict[str, list[str]]:
    """Return the kind of component -> its names, sorted. No component is imported."""
    found = [registry for registry in vars(registries).values() if isinstance(registry, Registry)]
    return {registry.kind: registry.names() for registry in found}
