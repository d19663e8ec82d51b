"""Plots: the calibrators of a diagram look different."""

import numpy as np

from kgcore.measure.evaluation.evaluate import Measured
from kgcore.measure.metrics.reliability import reliability
from kgcore.measure.report.plots import reliability_figures
from kgcore.registries import CALIBRATORS


def test_every_calibrator_of_a_diagram_has_its_own_style(rng: np.random.Generator) -> None:
    q = rng.random(200)
    result = Measured({}, reliability(q, (rng.random(200) < q).astype(float)))
    fitted = [f"synthetic.{name}" for name in CALIBRATORS.names()]
    figures = reliability_figures(dict.fromkeys(["uncalibrated", *fitted], result))
    diagram, histogram = figures["reliability_synthetic"].axes
    assert (*diagram.get_xlim(), *diagram.get_ylim()) == (0, 1, 0, 1)
    _, *lines = diagram.get_lines()
    styles = {(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}
    assert len(styles) == len(lines) == 1 + len(fitted)
    bars = {(str(bars.get_facecolor()), bars.get_hatch()) for bars in histogram.collections}
    assert len(bars) == 1 + len(fitted)
    heights = [path.vertices[:, 1].max() for path in histogram.collections[-1].get_paths()]
    np.testing.assert_allclose(heights, result.reliability.weight)
    assert "venn abers" in " ".join(str(line.get_label()) for line in lines)


def test_a_diagram_of_confidences_speaks_of_no_labels(rng: np.random.Generator) -> None:
    result = Measured({}, reliability(rng.random(200), rng.random(200)))
    for confidences, said in ((False, "share of true triples"), (True, "mean confidence")):
        [figure] = reliability_figures({"ground_truth.beta": result}, confidences).values()
        assert figure.axes[0].get_ylabel() == said
        assert ("confidences" in figure.axes[0].get_title()) == confidences
