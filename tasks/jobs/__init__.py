"""Jobs that make or read many runs: pipeline, recalibrate, tune, ensemble, reproduce, compare, promote, watch. A single
stage lives in stages/.
"""
