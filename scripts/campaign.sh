#!/usr/bin/env bash
# Trains the planned runs of open claims, one claim after another, and stops cleanly; the same command goes on.
#
#     scripts/campaign.sh until TIME [JOBS]   TIME as `date -d` reads it: 18:00, '+3 hours'; JOBS: processes, of one thread each
#     scripts/campaign.sh publish             brings what is done into results/, judged and drawn
#
# Needs NORMBENCH_DATA, and NORMBENCH_RESULTS: a folder outside of the checkout, which gets the runs. They are trained by a
# copy of the last commit, so that the checkout may be edited meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

# artifact, fidelity, and what is trained of it; core-hours
plan=(
    "dyt2025/lm proxy --only DYT-1b"                                 # 0.8; DYT-3b as well
    "dyt2025/vit proxy --only DYT-3"                                 # 0.6; DYT-9 of dyt2025/shape as well
    "rbn2016/fig2 reduced --only RBN-1 --controls"                   # 5.5
    "rms2019/captions proxy --only RMS-A1 --controls"                # 7.8
    "rms2019/captions proxy --only RMS-A2"                           # 1.9; seeds 11 to 15
    "rms2019/captions proxy --only RMS-R1b"                          # 2.0
    "rms2019/table10 reduced"                                        # 4.2; RMS-C1, RMS-C2
    "rms2019/table10 reduced --controls"                             # 11.1
)
# Trained, and their numbers are in the files: the rates that validation chose on seeds 21 and 22 (in conf/experiment/dyt2025;
# 1.2: `dyt2025/lm proxy --only rms`, `dyt2025/vit proxy --only ln`, each --control rate-low, rate-mid, ...), and how far
# seeds 11 to 15 differ (1.9: `dyt2025/lm proxy --control pilot`, the same of dyt2025/vit), for the number of seeds.
later=(
    "dyt2025/last proxy --only DYT-X1 --control lr-low --control lr-high"                        # 2.3: a third and three times the rate
    "dyt2025/last proxy --only DYT-X1c --control lr-low --control lr-high"                       # 2.3
    "dyt2025/ablation proxy --only DYT-4 --control lr-low --control lr-high"                     # 2.4
    "dyt2025/vit proxy --only DYT-3 --control lr-low --control lr-high"                          # 1.2
    "dyt2025/lm proxy --only DYT-1b --control lr-low --control lr-high"                          # 1.1
    # the same rates as RMSNorm's
    "dyt2025/lm proxy --only dyt-tuned --control rate-low --control rate-mid --control rate-high --control rate-high2 --control rate-high3"  # 0.7
    "dyt2025/vit proxy --only dyt-tuned --control rate-low --control rate-mid --control rate-high"  # 0.5
)
# planned as well, and not yet here: of dyt2025 DYT-2 and DYT-2b (1.2, once dyt-tuned has its rates), DYT-8 (3.8), DYT-X2
# (1.1), DERF-1b (0.6), DERF-3 (2.2), and all controls but the rates' (54). By the pilots DYT-1, 5, 6 and DERF-1, 2 cannot
# be decided at this size.

case "${1:-}" in
until)
    : "${NORMBENCH_DATA:?is the folder of the data sets}" "${NORMBENCH_RESULTS:?is a folder outside of the checkout}"
    end=$(date -d "$2" +%s)
    copy=$(mktemp -d)
    trap 'rm -rf "$copy"' EXIT
    trap 'exit 130' INT TERM         # bash waits for a stopped run, which still reads its code, and then leaves
    git clone --quiet . "$copy"
    cd "$copy"
    git log -1 --format='trained by commit %h: %s'
    export PYTHONPATH=$copy OMP_NUM_THREADS=1
    for entry in "${plan[@]}"; do
        read -r artifact fidelity only <<<"$entry"
        left=$((end - $(date +%s)))
        [ "$left" -gt 0 ] || break
        # a failed run stands in its folder; the next claim does not wait for it
        # shellcheck disable=SC2086
        python -m normbench reproduce "$artifact" --fidelity "$fidelity" $only --from results \
            --jobs "${3:-2}" --max-time "${left}s" ||
            echo "$artifact: exit code $?"
    done
    ;;
publish)
    for entry in "${plan[@]}" "${later[@]}"; do
        read -r artifact fidelity _ <<<"$entry"
        python -m normbench reproduce "$artifact" --fidelity "$fidelity" --controls --max-time 0 \
            --results results --from "$NORMBENCH_RESULTS"
    done
    ;;
*)
    sed -n '2,8s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
