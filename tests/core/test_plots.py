"""Figures: whoever reads them can tell what is what."""

import numpy as np

from kgcore.evaluation.evaluate import Measured
from kgcore.metrics.reliability import reliability
from kgcore.registries import CALIBRATORS
from kgcore.report.plots import reliability_figures


def test_every_calibrator_in_one_diagram_looks_its_own_way(rng: np.random.Generator) -> None:
    q = rng.random(200)
    result = Measured(0.1, 0.3, 0.01, 0.9, reliability(q, (rng.random(200) < q).astype(float)))
    names = CALIBRATORS.names()
    figure = reliability_figures({"uncalibrated": result} | {f"synthetic.{name}": result for name in names})
    diagram, histogram = figure["reliability_synthetic"].axes
    _, *lines = diagram.get_lines()
    assert len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in lines}) == len(names)
    bars = {(bar.get_facecolor(), bar.get_hatch()) for bar in histogram.patches}
    assert len(bars) == len(names)
    assert "venn abers" in " ".join(str(line.get_label()) for line in lines)
