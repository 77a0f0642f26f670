#!/usr/bin/env bash
# Gathers for scripts/gpu/check.sh what a run imports, and says how large it is.
#
#   scripts/gpu/wheels.sh WHEELS [PACKAGE ...]      for Linux x86_64 and Python 3.12 (PYTHON=3.12)
#
# The machine has torch, NumPy, SciPy and pandas, these PACKAGEs, and what they need. The data of ln2016/fig4 come along,
# where NORMBENCH_DATA has them. WHEELS and this checkout may have 64 MiB together: the largest wheels are left out.
set -euo pipefail
cd "$(dirname "$0")/../.."

mkdir -p "${1:?WHEELS, a folder}"
wheels=$(realpath "$1")
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rm -f "$wheels"/*.whl

# models.py trains in this process what the pool of `reproduce` trains in others; matplotlib draws once a run has ended
PYTHONPATH="scripts/gpu:$PWD${PYTHONPATH:+:$PYTHONPATH}" python3 - "$scratch" torch numpy scipy pandas "$@" <<'PYTHON'
import contextlib
import importlib.metadata as metadata
import re
import sys
from pathlib import Path

import matplotlib.pyplot
import models
import speed

from normbench import cli

scratch, *there = sys.argv[1:]
for model in ("mnist_mlp", "draw"):
    models.compare(model, "layer", "cpu", 12)
with contextlib.suppress(SystemExit):
    cli.main(f"reproduce ln2016/fig4 --fidelity smoke --max-time 0 --results {scratch}/results".split())
imported = {name.split(".")[0] for name in sys.modules} | {"sklearn", "plotly"}  # of which files are read


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


known = {"normbench"}
while there:
    if (name := canonical(there.pop())) not in known:
        known.add(name)
        with contextlib.suppress(metadata.PackageNotFoundError):
            needs = [need for need in metadata.requires(name) or () if "extra ==" not in need]
            there += [re.match(r"[\w.-]+", need)[0] for need in needs]
modules = metadata.packages_distributions()
needed = {canonical(name): name for module in imported & modules.keys() for name in modules[module]}
lines = [f"{name}=={metadata.version(needed[name])}\n" for name in sorted(needed.keys() - known)]
Path(scratch, "needed").write_text("".join(lines))
PYTHON

for platform in manylinux_2_28_x86_64 manylinux_2_27_x86_64 manylinux_2_17_x86_64 manylinux2014_x86_64 manylinux1_x86_64; do
    platforms+=(--platform "$platform")
done
while read -r package; do
    python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version "${PYTHON:-3.12}" \
        --implementation cp "${platforms[@]}" --dest "$wheels" "$package" 2>"$scratch/log" ||
        python3 -m pip wheel --quiet --no-deps --wheel-dir "$wheels" "$package" # of sources, such as pure Python
done <"$scratch/needed"
if [ -d "${NORMBENCH_DATA:-/nowhere}/binarized_mnist" ]; then
    mkdir -p "$wheels/data"
    cp -r --no-preserve=mode "$NORMBENCH_DATA/binarized_mnist" "$wheels/data"
fi

size() { du -cb "$@" | tail -n 1 | cut -f 1; }
mib() { python3 -c "print(f'{$1 / 2**20:.1f} MiB')"; }
git ls-files -z >"$scratch/files"
checkout=$(du -cb --files0-from="$scratch/files" | tail -n 1 | cut -f 1)
while [ $((checkout + $(size "$wheels"))) -gt $((64 << 20)) ]; do
    largest=$(find "$wheels" -name '*.whl' -printf '%s %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2)
    [ -n "$largest" ] || { echo "wheels.sh: this checkout alone has $(mib "$checkout")"; exit 1; }
    echo "left out, for all is too large: $(basename "$largest"), $(mib "$(size "$largest")"); steps that import it fail"
    rm "$largest"
done
ls -l --block-size=K "$wheels"/*.whl | awk '{print $5, $9}' | sed "s|$wheels/||"
echo "$(mib "$(size "$wheels")") in $wheels, this checkout $(mib "$checkout")"
