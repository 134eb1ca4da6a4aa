#!/bin/sh
# The record on an H200, into FOLDER: predictions sealed first, then every kernel checked, counted, traced and timed.
# A kernel that fails or differs from torch is listed in FOLDER/check.txt and skipped.
#   sh examples/faults/record.sh FOLDER      from the root of a checkout, ridgeline importable
set -eu
out=$1
python=${PYTHON:-python3}
here=examples/faults
whole=$(mktemp -d)
mkdir -p "$out"

$python -m ridgeline seal $here/cases.csv --on h200-sxm --ledger "$out/ledger.sqlite" --note "planted faults and their cures"
$python $here/kernels.py --check 2> "$out/check.txt" || tail -n 1 "$out/check.txt" >&2
failed=$(sed -n 's/^wrong: //p' "$out/check.txt" | tr -d ',')
$python -m ridgeline profile --with ncu --out "$whole/kernels.csv" -- $python $here/kernels.py --skip tiny_kernels graph $failed
$python -m ridgeline profile --with torch --out "$whole/trace.json.gz" -- $python $here/kernels.py tiny_kernels
$python $here/cut.py "$whole/kernels.csv" "$out"
$python $here/cut.py "$whole/trace.json.gz" "$out"
$python $here/kernels.py --time "$out/times.csv" --skip $failed
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit --format=csv > "$out/conditions.txt"
$python -c "import cupy, torch, triton; print('torch', torch.__version__, 'triton', triton.__version__, 'cupy', cupy.__version__)" >> "$out/conditions.txt"
ncu --version | tail -n 1 >> "$out/conditions.txt"
rm -r "$whole"
