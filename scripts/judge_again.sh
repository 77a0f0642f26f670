#!/usr/bin/env bash
# Judge all published packs with today's code in a copy, and compare words, numbers and cells with tests/golden/verdicts.json.
# Sentences are not compared. Usage: scripts/judge_again.sh
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r results/. "$copy"
for fidelity in paper reduced proxy; do
    mapfile -t names < <(cd "$copy" && ls -d */*/"$fidelity" | sed "s|/$fidelity\$||")
    python -m normbench reproduce "${names[@]}" --fidelity "$fidelity" --max-time 0 --results "$copy" >"$copy/judged.log" ||
        { tail "$copy/judged.log"; exit 1; }
done
python tests/golden/golden.py judge "$copy"
