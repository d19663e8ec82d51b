#!/usr/bin/env bash
# Measure kgcal on a GPU in under ten minutes: every model (benchmarks/gpu.py), then the seconds of whole runs.
#
#     benchmarks/gpu.sh
#
# The runs are those of the paper's table of results on WN11, and ComplEx on FB15K-237 up to its ranks. They start in a
# new KGCAL_HOME and without Prefect. KGCAL_MIRROR may name a mirror of the data sets.
set -euo pipefail
cd "$(dirname "$0")/.."
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
export KGCAL_HOME=$home KGCAL_PREFECT=off PYTHONPATH=.
python=$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)

"$python" benchmarks/gpu.py
time "$python" -m kgcal reproduce results --dataset wn11 --device cuda
time "$python" -m kgcal run --dataset fb15k-237 --model complex --device cuda
