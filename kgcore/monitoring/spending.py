"""Alpha spending: the level of the tests of each sitting of an exam. A sitting is one comparison of candidates."""


def level_of(sitting: int, judged: int, alpha: float) -> float:
    """Return the one-sided level at which each challenger of a sitting is tested.

        alpha / (k (k + 1)) / m

    sitting  number k of the sitting in an era of the exam, from 1
    judged   number m of the challengers of this sitting, at least 1. If the triples of the test have also chosen them,
             the number of those from which they were chosen
    alpha    largest probability, in (0, 1), that any challenger of the era counts as better without being so

    1 / (k (k + 1)) over k = 1, 2, ... sums to 1 (alpha spending, Lan & DeMets, Biometrika 70, 1983), and the level of a
    sitting is divided by the number of its challengers (Bonferroni). So the sum over all tests is at most alpha,
    however many sittings there are. A first challenger that is alone has the level alpha / 2, one side of a two-sided
    test at alpha.
    """
    return alpha / (sitting * (sitting + 1)) / judged
