"""The names that a report shows for the counts of a data set, and the settings that it shows."""

from collections.abc import Mapping

from kgcore.registries import DATASETS

GENERATION = ("size", "graph_seed")  # settings that only generated data sets use
PARTS = ("train", "valid", "test", "labels")  # the first word of a count
TITLES = {
    "rows": "rows",
    "with_unseen": "rows with unknown names",
    "duplicates": "duplicate rows",
    "not_held_out": "rows that are also in train or test",
    "used": "rows used",
    "known": "rows that valid has with the same label",
}
OVERLAPS = {
    "_positives_in_": " positives that are also in ",
    "_negatives_true_in_": " negatives that are positives of ",
}


def count_title(name: str) -> str:
    """Return the name that a report shows for a count: `train rows with unknown names` for `train_with_unseen`."""
    part, _, rest = name.partition("_")
    if part in PARTS and rest in TITLES:
        return f"{part} {TITLES[rest]}"
    for name_part, words in OVERLAPS.items():
        name = name.replace(name_part, words)
    return name.replace("_", " ")


def shown_settings(settings: Mapping[str, Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    """Return stage -> its settings. `size` and `graph_seed` are left out if the data set is not generated."""
    return {stage: _without_generation(values) for stage, values in settings.items()}


def _without_generation(values: Mapping[str, object]) -> Mapping[str, object]:
    name = values.get("dataset")
    if name is None or (name in DATASETS.names() and DATASETS.get(str(name)).generate is not None):
        return values
    return {setting: value for setting, value in values.items() if setting not in GENERATION}
