#!/usr/bin/env bash
# Builds the image and uses it as a user would: published results, folders of the host, any user id, a stop.
#
#   scripts/container/check.sh
#
# Where no image can be pulled (Debian, as root; apt-get install podman runc debootstrap):
#
#   BOOTSTRAP=1 ENGINE="podman --runtime runc" TORCH_INDEX= ENGINE_ARGS="--network host" scripts/container/check.sh
#
# ENGINE             docker, or podman where no Docker engine answers; words before its subcommand may follow
# ENGINE_ARGS        arguments for every build and every run (e.g. --ulimit nofile=1024:1024 in a sandbox)
# BASE, TORCH_INDEX  build arguments, where set; TORCH_INDEX may be empty
# BOOTSTRAP=1        BASE is made here: Debian 12 with its Python 3.11
# KEEP=1             the images stay
#
# The build's pip is set up as pip is here (`pip config list`), by a build secret; files and folders that this names are
# mounted into the build, which podman can and docker cannot. About 4 GB and 10 minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."

image=localhost/normbench:check
bootstrapped=localhost/normbench-base:check
scratch=$(mktemp -d)
container=
read -ra extra <<<"${ENGINE_ARGS:-}"
if [ -z "${ENGINE:-}" ]; then
    if docker info >/dev/null 2>&1; then ENGINE=docker; else ENGINE=podman; fi
fi
read -ra engine <<<"$ENGINE"

leave() {
    [ -z "$container" ] || "${engine[@]}" rm --force --volumes "$container" >/dev/null 2>&1 || true
    if [ -z "${KEEP:-}" ]; then
        "${engine[@]}" rmi --force "$image" "$bootstrapped" >/dev/null 2>&1 || true
    fi
    rm -rf "$scratch"
}
trap leave EXIT

step() { printf '\n== %s\n' "$*"; }
run() { "${engine[@]}" run --rm "${extra[@]}" "$@"; }
same() { [ "$1" = "$2" ] || { printf 'FAILED: %s instead of %s\n' "$1" "$2" >&2; exit 1; }; }
has() { case $1 in *"$2"*) ;; *) printf '%s\nFAILED: it does not say: %s\n' "$1" "$2" >&2; exit 1 ;; esac; }

if command -v hadolint >/dev/null; then
    step "hadolint"
    hadolint Dockerfile
fi

if [ -n "${BOOTSTRAP:-}" ]; then
    step "base: Debian 12 with its Python 3.11"
    BASE=$bootstrapped
    if ! "${engine[@]}" image inspect "$BASE" >/dev/null 2>&1; then
        debootstrap --variant=minbase --include=python3-venv,ca-certificates bookworm "$scratch/base" >/dev/null
        tar -C "$scratch/base" -c . | "${engine[@]}" import - "$BASE" >/dev/null
        rm -rf "$scratch/base"
    fi
fi

step "build"
arguments=(--secret "id=pip,src=$scratch/pip.conf" --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || true)")
[ -z "${BASE:-}" ] || arguments+=(--build-arg "BASE=$BASE")
[ -z "${TORCH_INDEX+set}" ] || arguments+=(--build-arg "TORCH_INDEX=$TORCH_INDEX")
python3 - "$scratch/pip.conf" >"$scratch/places" <<'PYTHON'
import ast
import configparser
import os
import subprocess
import sys

listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
options = {}
for line in sorted(listed.stdout.splitlines()):
    name, _, value = line.partition("=")
    section, _, option = name.rpartition(".")
    if section in (":env:", "global", "install") and option in (
        "index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert", "client-cert", "proxy",
        "default-timeout", "timeout", "retries",
    ):  # fmt: skip
        options[option] = ast.literal_eval(value).split()
config = configparser.RawConfigParser()
config["global"] = {option: "\n".join(words) for option, words in options.items()}
with open(sys.argv[1], "w") as file:
    config.write(file)
places = {word.removeprefix("file://") for words in options.values() for word in words}
for place in sorted(places):
    if place.startswith("/") and os.path.exists(place):
        # an index refers to files beside it
        print(os.path.dirname(place) if os.path.isdir(place) and os.path.basename(place) == "simple" else place)
PYTHON
while IFS= read -r place; do
    case ${engine[0]} in
        *podman) arguments+=(--volume "$place:$place:ro") ;;
        *) echo "note: pip is set up to use $place, which this build does not see" ;;
    esac
done <"$scratch/places"
"${engine[@]}" build "${extra[@]}" "${arguments[@]}" --tag "$image" . >"$scratch/build.log" 2>&1 || {
    tail -40 "$scratch/build.log"
    exit 1
}
"${engine[@]}" images "$image"

step "nothing of the build's pip configuration is in it"
run --entrypoint sh "$image" -c '! [ -s /etc/pip.conf ] && ! [ -e /run/secrets/pip ]'

step "command line"
same "$(run "$image" --version)" "normbench $(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)"
has "$(run "$image")" "reproduce"
has "$(run "$image" list)" "ln2016/fig6"

step "not root"
same "$(run --entrypoint id "$image" -u)" 1000

step "published results, as the image's user and as any other in a read-only container"
published=$(run "$image" reproduce ln2016/fig6 --max-time 0)
has "$published" "holds"
has "$published" "nothing is started"
has "$(run --user 12345:12345 --read-only --tmpfs /tmp "$image" reproduce ln2016/fig6 --max-time 0)" "holds"

step "a named volume begins with them, for any user"
volume=normbench-check-$$
published=$(run --volume "$volume:/results" --user 12345:12345 --entrypoint sh "$image" \
    -c 'touch /results/ln2016/mine && cat /results/ln2016/fig6/paper/verdicts.json') || published=
"${engine[@]}" volume rm --force "$volume" >/dev/null
same "$published" "$(cat results/ln2016/fig6/paper/verdicts.json)"

step "a run in a folder of the host belongs to --user"
mkdir "$scratch/results"
user=$(id -u):$(id -g)
if [ "$user" = 0:0 ]; then
    user=4321:4321
    chown "$user" "$scratch/results"
    chmod 711 "$scratch"
fi
mine=(--user "$user" --volume "$scratch/results:/results")
train=(train model=mnist_mlp data=digits norm=layer)
has "$(run "${mine[@]}" "$image" "${train[@]}" train.epochs=1)" "1 run · 0 done, 1 to run"
has "$(run "${mine[@]}" "$image" "${train[@]}" train.epochs=1)" "1 run · 1 done"
same "$(find "$scratch/results" -printf '%U:%G\n' | sort -u)" "$user"

step "a stop saves, and ends at once"
container=$("${engine[@]}" run --detach "${extra[@]}" "${mine[@]}" "$image" "${train[@]}" train.epochs=100000 seed=2)
for _ in $(seq 120); do
    ! ls "$scratch"/results/runs/adhoc/*.s2.*/curve.jsonl >/dev/null 2>&1 || break
    sleep 0.5
done
"${engine[@]}" stop --time 60 "$container" >/dev/null
same "$("${engine[@]}" inspect --format '{{.State.ExitCode}}' "$container")" 130
has "$(run "${mine[@]}" "$image" status)" "1 interrupted"

step "done"
