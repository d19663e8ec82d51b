"""Alpha spending: the level of each sitting of an exam."""


def level_of(sitting: int, judged: int, alpha: float) -> float:
    """Return the one-sided level at which each challenger of a sitting is tested.

        alpha / (k (k + 1)) / m

    sitting  number k of the sitting on this exam, from 1
    judged   number m of the challengers that sit it together, at least 1
    alpha    probability, in (0, 1), that any challenger that is not better ever counts as better on this exam

    1 / (k (k + 1)) over k = 1, 2, ... sums to 1 (alpha spending, Lan & DeMets, Biometrika 70, 1983), and the level of a
    sitting is divided by the number of its challengers (Bonferroni). So the sum over all tests is at most alpha, and
    the number of sittings need not be planned. The first challenger, alone, has alpha / 2, which is one side of a
    two-sided test at alpha.
    """
    return alpha / (sitting * (sitting + 1)) / judged
