#!/usr/bin/env bash
# What normbench does on a GPU, in 8 minutes on a bare machine without network.
#
#   scripts/gpu/check.sh OUT [WHEELS]      needs torch, NumPy, SciPy and pandas; WHEELS as scripts/gpu/wheels.sh makes it
#   scripts/gpu/check.sh --cpu OUT [...]   the same steps at tiny sizes on the CPU: a test of this script
#
# Five steps: models against the CPU (models.py), layers, generative models and Transformer blocks (speed.py), and what
# 8 minutes leave for the runs of ln2016/fig4. OUT has a line for each result as it ends (steps.jsonl), log.txt, gpu.md, which is published as
# results/bench/gpu.md, and in results.tar.* the runs: put these into WHEELS to go on with them.
set -euo pipefail
cd "$(dirname "$0")/../.."

device=cuda fidelity=paper slack=1 tiny=()
if [ "${1:-}" = --cpu ]; then
    shift
    device=cpu fidelity=smoke slack=5 tiny=(--updates 12 mnist_mlp recall_lstm draw char_lm vit)
fi
mkdir -p "${1:?OUT, a folder for what is found}"
out=$(realpath "$1") wheels=/nowhere total=$((480 * slack)) failed=()
[ $# -lt 2 ] || wheels=$(realpath -e "$2")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/results"
: >"$out/steps.jsonl" >"$out/log.txt"
if compgen -G "$wheels/*.whl" >/dev/null; then
    python3 -m pip install --quiet --no-index --no-deps --no-compile --target "$scratch/site" "$wheels"/*.whl
fi
export PYTHONPATH="$scratch/site:$PWD${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
[ ! -d "$wheels/data" ] || export NORMBENCH_DATA="$wheels/data"
python3 -c "import sys, torch; sys.exit(not (sys.argv[1] == 'cpu' or torch.cuda.is_available()))" "$device" ||
    { echo "check.sh: torch finds no CUDA device here; --cpu tests this script without one" >&2; exit 2; }

step() { # NAME SECONDS COMMAND ...; its records go to steps.jsonl, all else to log.txt
    local name=$1 limit=$(($2 * slack < total - SECONDS ? $2 * slack : total - SECONDS)) code=0
    shift 2
    printf '\n== %s, for %s s at most\n' "$name" "$limit" | tee -a "$out/log.txt"
    timeout --kill-after=5 "$((limit > 1 ? limit : 1))" "$@" 2>>"$out/log.txt" | tee -a "$out/steps.jsonl" || code=$?
    if [ "$code" -ne 0 ]; then
        failed+=("$name: exit code $code$([ "$code" -ne 124 ] || echo ', past its limit')")
        tail -n 5 "$out/log.txt"
    fi
}

runs() { # FOLDER: goes on with the runs that lie there
    if compgen -G "$1/results.tar.*" >/dev/null; then cat "$1"/results.tar.* | tar -x -C "$scratch"; fi
    local left=$((total - SECONDS - 30))
    [ "$device" = cuda ] || left=8
    step "runs of ln2016/fig4" "$((left + 20))" bash -c '"$@" >&2 || [ $? -eq 130 ]' - \
        python3 -m normbench reproduce ln2016/fig4 --fidelity "$fidelity" --device "$device" --jobs 1 \
        --max-time "$((left > 0 ? left : 0))s" --results "$scratch/results"
    rm -f "$out"/results.tar.*
    # in parts: as much as can be carried
    tar -c -C "$scratch" --exclude=report results | split -b 15M - "$out/results.tar."
}

step "models" 140 python3 scripts/gpu/models.py --device "$device" "${tiny[@]}"
step "layers" 120 python3 scripts/gpu/speed.py layers --device "$device"
step "generative models" 100 python3 scripts/gpu/speed.py generative --device "$device"
step "blocks" 200 python3 scripts/gpu/speed.py blocks --device "$device"
runs "$wheels"
if [ "$device" = cpu ]; then
    rm -r "$scratch/results"
    runs "$out"  # from what it has packed
fi
python3 scripts/gpu/page.py "$out" "$scratch/results"
printf '\n%s s; see %s/gpu.md\n' "$SECONDS" "$out"
[ "${#failed[@]}" -eq 0 ] || { printf 'failed: %s\n' "${failed[@]}"; exit 1; }
