#!/bin/sh
# The path on an H200, into FOLDER: every version checked, counted and timed.
#   sh examples/gemm_path/record.sh FOLDER   from the root of a checkout, ridgeline importable
set -eu
out=$1
python=${PYTHON:-python3}
here=examples/gemm_path
whole=$(mktemp -d)
mkdir -p "$out"

$python $here/kernels.py --check
$python -m ridgeline profile --with ncu --use roofline --out "$whole/kernels.csv" -- $python $here/kernels.py
$python examples/faults/cut.py "$whole/kernels.csv" "$out"
$python $here/kernels.py --time "$out/times.csv"
rm -r "$whole"
