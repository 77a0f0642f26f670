#!/usr/bin/env bash
# Runs the tests with the lowest versions that pyproject.toml allows of what normbench needs.
#
#   scripts/lowest/check.sh [what pytest is given]
#
# In an environment of its own, from a copy of this checkout; about 4 GB and 10 minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m venv "$scratch/venv"
. "$scratch/venv/bin/activate"
python - >"$scratch/lowest.txt" <<'PYTHON'
import re
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
extras = project["optional-dependencies"]
for need in [*project["dependencies"], *extras["train"], *extras["wandb"]]:
    name, lowest = re.match(r"([\w.-]+)>=([\d.]+)", need).groups()
    print(f"{name}=={lowest}")
print(*(need for need in extras["dev"] if not need.startswith("normbench")), sep="\n")
PYTHON
pip install --quiet -r "$scratch/lowest.txt"
git clone --quiet . "$scratch/src"
cd "$scratch/src"
pip install --quiet --no-deps -e .
pip check
pip list --format=freeze | grep -E "^($(sed -n 's/==.*//p' "$scratch/lowest.txt" | paste -sd '|'))=="
pytest "$@"
