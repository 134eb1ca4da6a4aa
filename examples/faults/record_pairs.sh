#!/bin/sh
# The held-out pairs of SET on an H200, into FOLDER: every version checked, timed and counted.
# A pair that fails or differs from torch is listed in FOLDER/check.txt and skipped. Clocks are left alone.
#   sh examples/faults/record_pairs.sh SET FOLDER      from the root of a checkout, ridgeline importable
set -eu
which=$1
out=$2
python=${PYTHON:-python3}
pairs="examples/faults/pairs.py $which"
whole=$(mktemp -d)
mkdir -p "$out"

nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit --format=csv > "$out/conditions.txt"
$python -c "import cupy, torch, triton; print('torch', torch.__version__, 'cupy', cupy.__version__, 'triton', triton.__version__)" >> "$out/conditions.txt"
ncu --version | tail -n 1 >> "$out/conditions.txt"

$python $pairs --check 2> "$out/check.txt" || sed -n '/^wrong: /p' "$out/check.txt" >&2
failed=$(sed -n 's/^wrong: //p' "$out/check.txt" | tr -d ',' | tr '\n' ' ')
$python $pairs --time "$out/times.csv" --skip $failed 2> "$out/time.txt" || tail -n 1 "$out/time.txt" >&2
$python $pairs --trace "$whole/traces" --skip $failed 2> "$out/trace.txt" || tail -n 1 "$out/trace.txt" >&2
for trace in "$whole"/traces/*.json.gz; do
    test -e "$trace" || continue # a set without calls of torch
    mkdir -p "$out/traces"
    $python examples/faults/cut.py "$trace" "$out/traces"
done

# The command of `ridgeline profile --with ncu`, which counts only between cudaProfilerStart and cudaProfilerStop here.
$python - "$whole/kernels.csv" "$python" $pairs --count --skip $failed > "$out/count.txt" 2>&1 << 'COMMAND' || tail -n 3 "$out/count.txt" >&2
import subprocess
import sys

from ridgeline.profilers.commands import ncu
from ridgeline.profilers.profile import find_ncu

[command] = ncu(sys.argv[2:], out=sys.argv[1], tool=find_ncu())
tool, *options = command.words
sys.exit(subprocess.run([tool, "--profile-from-start", "off", *options], check=False).returncode)
COMMAND
$python examples/faults/cut.py "$whole/kernels.csv" "$out"
rm -r "$whole"
