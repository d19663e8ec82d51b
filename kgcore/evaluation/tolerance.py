"""Which calibrators have a calibration error, on their own test, that is significantly above the tolerance."""

from collections.abc import Mapping

from kgcore.calibration.calibrated import Calibrated
from kgcore.calibration.fit import SYNTHETIC
from kgcore.evaluation.evaluate import Measured
from kgcore.evaluation.predictions import Predictions

ERROR = "debiased_rmsce"
TOLERANCE = 0.02  # a calibration error whose interval is above it is reported first, and does not pass the gate
SAME_BASE_RATE = 0.05  # test rows with a base rate that differs by more are no test of a calibrator


def miscalibrated(
    bounds: Mapping[str, Calibrated],
    predictions: Predictions,
    measured: Mapping[str, Measured],
    incomplete: bool = False,
) -> dict[str, str]:
    """Return label -> a sentence with its debiased RMSCE, for each calibrator whose lower interval end is too high.

    bounds        label -> calibrator, without baselines
    predictions   of the test rows
    measured      label -> its metrics and their intervals
    incomplete    whether the graph is stated to be incomplete

    A calibrator is judged on its own test alone. The base rate of the test rows is near its base rate. If their
    negatives are corruptions, it is fitted to corruptions, and the graph is not stated to be incomplete: some
    corruptions of test would be true, and count as false.
    """
    found = {}
    for label, bound in bounds.items():
        same = abs(predictions.base_rate - bound.base_rate) <= SAME_BASE_RATE
        kind = not predictions.synthetic_negatives or (bound.negatives == SYNTHETIC and not incomplete)
        low, high = measured[label].intervals.get(ERROR, (0.0, 0.0))
        if same and kind and low > TOLERANCE:
            found[label] = (
                f"The probabilities of {label.replace('_', ' ')} are not calibrated: their debiased RMSCE on this test "
                f"is {measured[label].metrics[ERROR]:.4f} [{low:.4f}, {high:.4f}], and {TOLERANCE:g} is the tolerance."
            )
    return found
