"""The paper's qualitative findings, held against the numbers of a reproduction: sentences with figures in them."""

import pandas as pd

from kgcore.reproduction.paper import NOT_HELD_OUT

PROPER = ("brier", "log_loss")
TOLERANCE = 0.01  # how much worse than the paper a proper score may be
_RUN = ["dataset", "model", "loss", "base_rate", "eta", "k", "varied"]


def findings(frame: pd.DataFrame) -> list[str]:
    """What holds and what does not, of the rows that a reproduction has (`side_by_side`)."""
    rows = frame[frame["metric"].isin([*PROPER, "mrr"]) & frame["ours"].notna()]
    rows = rows.drop_duplicates(["run_id", "negatives", "calibrator", "metric"])
    brier = rows[rows["metric"] == "brier"].pivot_table(index=_RUN, columns=["negatives", "calibrator"], values="ours")
    said = [_against_paper(frame), _beats_uncalibrated(brier), _synthetic(brier), _isotonic(brier), _ranks(rows)]
    return [sentence for sentence in said if sentence]


def worse_than_paper(frame: pd.DataFrame, by: float = TOLERANCE) -> pd.DataFrame:
    """The calibrated proper scores that are worse than the paper's by more than `by`, worst first."""
    rows = _proper(frame)
    return rows[rows["difference"] > by].sort_values("difference", ascending=False)


def _proper(frame: pd.DataFrame) -> pd.DataFrame:
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
        f"Of {len(difference)} calibrated Brier scores and log losses, {close:.1%} are no worse than the paper's by "
        f"more than {TOLERANCE} and {better:.1%} are better; the worst is {difference.max():+.4f} from it, the median "
        f"{difference.median():+.4f}."
    )


def _beats_uncalibrated(brier: pd.DataFrame) -> str:
    if ("none", "uncalibrated") not in brier:
        return ""
    fits = brier.sub(brier[("none", "uncalibrated")], axis=0).drop(columns="none", level=0).stack([0, 1]).dropna()
    verdict = "holds" if (fits < 0).all() else "does not hold everywhere"
    return f"Calibration beats uncalibrated scores: {verdict}, in {(fits < 0).mean():.1%} of {len(fits)} fits."


def _synthetic(brier: pd.DataFrame) -> str:
    if not {"ground_truth", "synthetic"} <= set(brier.columns.get_level_values(0)):
        return ""
    gap = (brier["synthetic"] - brier["ground_truth"]).stack().dropna()
    return (
        f"Synthetic calibration is close to ground truth: its Brier score is higher by {gap.mean():.4f} on average, by "
        f"{gap.max():.4f} at most ({' '.join(str(part) for part in gap.idxmax()[:3])})."
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
        f"Isotonic regression is no worse than Platt scaling: in {(gap <= 0.0005).mean():.1%} of {len(gap)} pairs (to "
        f"0.0005), with a Brier score lower by {-gap.mean():.4f} on average."
    )


def _ranks(rows: pd.DataFrame) -> str:
    """Over all runs, and within each data set, where Brier scores of one test set are compared."""
    ours, theirs = (_mrr_and_brier(rows, of) for of in ("ours", "paper"))
    if len(ours) < 4:
        return ""
    said = (
        f"Ranks and calibration: Spearman's correlation of MRR with the isotonic Brier score is {_correlations(ours)}; "
        "-1 would be an MRR that tells calibration, 0 one that says nothing of it."
    )
    return f"{said} In the paper's own figures it is {_correlations(theirs)}." if len(theirs) >= 4 else said


def _mrr_and_brier(rows: pd.DataFrame, of: str) -> pd.DataFrame:
    """A run's MRR and its best isotonic Brier score, ours or the paper's."""
    runs = rows.set_index(_RUN)
    mrr = runs[runs["metric"] == "mrr"][of]
    fitted = runs[(runs["metric"] == "brier") & (runs["calibrator"] == "isotonic")]
    brier = fitted.groupby(level=_RUN)[of].min()
    return pd.concat([mrr.rename("mrr"), brier.rename("brier")], axis=1).dropna()


def _correlations(both: pd.DataFrame) -> str:
    each = {str(name): _spearman(g) for name, g in both.groupby("dataset") if len(g) >= 4}
    within = ", ".join(f"{name} {value:+.2f}" for name, value in each.items() if value == value)
    return f"{_spearman(both):+.2f} over all {len(both)} runs ({within})"


def _spearman(both: pd.DataFrame) -> float:
    return float(both["mrr"].rank().corr(both["brier"].rank()))
