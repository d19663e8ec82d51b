"""The names of tables, models, losses, metrics and calibrators that the reproduction's page and plots show."""

TITLES = {
    "results": "Results: calibration with ground truth and synthetic negatives",
    "losses": "Losses",
    "classification": "Triple classification: accuracy at 0.5 and with a threshold per relation",
    "base-rate": "Positive base rates",
    "sensitivity": "Sensitivity to eta and k",
    "ranks": "Filtered ranks, both sides",
    "thresholds": "Thresholds per relation",
    "reliability": "Reliability: calibration error",
}
NAMES = {
    "transe": "TransE",
    "distmult": "DistMult",
    "complex": "ComplEx",
    "hole": "HolE",
    "nll": "NLL",
    "multiclass_nll": "multiclass NLL",
    "self_adversarial": "self-adversarial",
    "brier": "Brier score",
    "ece": "calibration error (ECE)",
    "mr": "MR",
    "mrr": "MRR",
    "hits_at_10": "Hits@10",
    "per_relation": "per relation, median",
    "per_relation_learned": "per relation, learned",
    "platt": "Platt",
}


def name(key: object) -> str:
    """Return the name that the page shows for a key. A number is written in its shortest form."""
    return f"{key:g}" if isinstance(key, float) else NAMES.get(str(key), str(key).replace("_", " "))
