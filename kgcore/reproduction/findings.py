"""The paper's qualitative findings, tested on the values of a reproduction. Each finding becomes one sentence."""

import pandas as pd

from kgcore.reproduction.compare import NOT_HELD_OUT

PROPER = ("brier", "log_loss")
TOLERANCE = 0.01  # a proper score may exceed the paper's score by at most this value
_RUN = ["dataset", "model", "loss", "base_rate", "eta", "k", "varied"]


def findings(frame: pd.DataFrame) -> list[str]:
    """Return a sentence for each finding that `frame` has the rows for. `frame` is the output of `side_by_side`."""
    rows = frame[frame["metric"].isin([*PROPER, "mrr"]) & frame["ours"].notna()]
    rows = rows.drop_duplicates(["run_id", "negatives", "calibrator", "metric"])
    brier = rows[rows["metric"] == "brier"].pivot_table(index=_RUN, columns=["negatives", "calibrator"], values="ours")
    sentences = [_against_paper(frame), _beats_uncalibrated(brier), _synthetic(brier), _isotonic(brier), _ranks(rows)]
    return [sentence for sentence in sentences if sentence]


def worse_than_paper(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose calibrated proper score exceeds the paper's by more than TOLERANCE, the largest first."""
    rows = _proper(frame)
    return rows[rows["difference"] > TOLERANCE].sort_values("difference", ascending=False)


def _proper(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the proper scores of calibrated probabilities for which the paper has a held-out value.

    The column `difference` is ours minus the paper's.
    """
    kept = frame["metric"].isin(PROPER) & frame["negatives"].isin(["ground_truth", "synthetic"])
    rows = frame[kept & frame["paper"].notna() & frame["ours"].notna() & (frame["note"] != NOT_HELD_OUT)]
    rows = rows.drop_duplicates([*_RUN, "negatives", "calibrator", "metric"])
    return rows.assign(difference=rows["ours"] - rows["paper"])


def _against_paper(frame: pd.DataFrame) -> str:
    difference = _proper(frame)["difference"]
    if difference.empty:
        return ""
    close, better = (difference <= TOLERANCE).mean(), (difference < 0).mean()
    return (
        f"Of {len(difference)} calibrated Brier scores and log losses, {close:.1%} exceed the paper's by at most "
        f"{TOLERANCE}, or are lower; {better:.1%} are lower; the largest difference (ours minus the paper's) is "
        f"{difference.max():+.4f}, the median {difference.median():+.4f}."
    )


def _beats_uncalibrated(brier: pd.DataFrame) -> str:
    if ("none", "uncalibrated") not in brier:
        return ""
    fits = brier.sub(brier[("none", "uncalibrated")], axis=0).drop(columns="none", level=0).stack([0, 1]).dropna()
    verdict = "holds" if (fits < 0).all() else "does not hold everywhere"
    return f"Calibration beats uncalibrated scores: this {verdict}, in {(fits < 0).mean():.1%} of {len(fits)} fits."


def _synthetic(brier: pd.DataFrame) -> str:
    if not {"ground_truth", "synthetic"} <= set(brier.columns.get_level_values(0)):
        return ""
    gap = (brier["synthetic"] - brier["ground_truth"]).stack().dropna()
    return (
        f"Synthetic calibration is close to ground truth: its Brier score is higher by {gap.mean():.4f} on average "
        f"and by {gap.max():.4f} at most ({' '.join(str(part) for part in gap.idxmax()[:3])})."
    )


def _isotonic(brier: pd.DataFrame) -> str:
    gaps = [
        brier[(negatives, "isotonic")] - brier[(negatives, "platt")]
        for negatives in ("ground_truth", "synthetic")
        if {(negatives, "isotonic"), (negatives, "platt")} <= set(brier)
    ]
    if not gaps:
        return ""
    gap = pd.concat(gaps).dropna()
    return (
        f"Isotonic regression is no worse than Platt scaling: in {(gap <= 0.0005).mean():.1%} of {len(gap)} pairs "
        f"(within 0.0005); its Brier score is lower by {-gap.mean():.4f} on average."
    )


def _ranks(rows: pd.DataFrame) -> str:
    """Describe the correlation of ranks with Brier scores, over all runs and within each data set.

    Only Brier scores within a data set are directly comparable, because they share their test set.
    """
    ours, theirs = (_mrr_and_brier(rows, of) for of in ("ours", "paper"))
    if len(ours) < 4:
        return ""
    sentence = (
        f"Ranks and calibration: Spearman's correlation of MRR with the isotonic Brier score is {_correlations(ours)}; "
        "-1 means that a higher MRR always comes with a lower Brier score, 0 that the two are unrelated."
    )
    return f"{sentence} In the paper's own results it is {_correlations(theirs)}." if len(theirs) >= 4 else sentence


def _mrr_and_brier(rows: pd.DataFrame, of: str) -> pd.DataFrame:
    """Return the MRR and the lowest isotonic Brier score of every run, from the column `of`: ours or paper."""
    runs = rows.set_index(_RUN)
    mrr = runs[runs["metric"] == "mrr"][of]
    fitted = runs[(runs["metric"] == "brier") & (runs["calibrator"] == "isotonic")]
    brier = fitted.groupby(level=_RUN)[of].min()
    return pd.concat([mrr.rename("mrr"), brier.rename("brier")], axis=1).dropna()


def _correlations(both: pd.DataFrame) -> str:
    def spearman(runs: pd.DataFrame) -> float:
        return float(runs["mrr"].rank().corr(runs["brier"].rank()))

    each = {str(name): spearman(runs) for name, runs in both.groupby("dataset") if len(runs) >= 4}
    within = ", ".join(f"{name} {value:+.2f}" for name, value in each.items() if value == value)
    return f"{spearman(both):+.2f} over all {len(both)} runs ({within})"
