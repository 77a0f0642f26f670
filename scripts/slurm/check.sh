#!/usr/bin/env bash
# Starts a real Slurm of one node on this machine, and runs the tests marked `slurm` on it, or a command of yours.
#
#   scripts/slurm/check.sh [COMMAND ...]
#
# Debian, as root: installs slurmctld, slurmd and munge where they are missing. No systemd, no cgroups, no slurmdbd.
# All that it starts lies in a temporary folder and ends with it; a Slurm that is here already is left alone.
set -euo pipefail
cd "$(dirname "$0")/../.."

scratch=$(mktemp -d)
export SLURM_CONF="$scratch/slurm.conf"
started=()
leave() {
    scancel --user="$(id -un)" --full --signal=KILL >/dev/null 2>&1 || true
    scancel --user="$(id -un)" >/dev/null 2>&1 || true
    for ((i = ${#started[@]} - 1; i >= 0; i--)); do kill "${started[i]}" 2>/dev/null || true; done
    for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
    rm -rf "$scratch"
}
fail() {
    echo "check.sh: $1" >&2
    tail -n 20 "$scratch"/*.log >&2 || true
    exit 1
}
trap leave EXIT

for program in slurmctld slurmd munged; do
    command -v "$program" >/dev/null || missing=1
done
if [ -n "${missing:-}" ]; then
    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends \
        slurmctld slurmd munge; } >"$scratch/apt.log" 2>&1 || fail "Slurm could not be installed"
fi

free() { python3 -c "import socket; s = socket.socket(); s.bind(('', 0)); print(s.getsockname()[1])"; }
node=$(hostname -s)
chmod 755 "$scratch"
mkdir -m 755 "$scratch/munge"
mkdir "$scratch/state" "$scratch/spool"
dd if=/dev/urandom of="$scratch/munge.key" bs=1 count=1024 status=none
chmod 400 "$scratch/munge.key"
# config_overrides: four tasks beside each other on a machine with fewer cores
# cred_expire: a requeued task waits that many seconds for its turn (120 by default), so that its end is over by then
cat >"$scratch/slurm.conf" <<CONF
ClusterName=check
SlurmctldHost=$node(127.0.0.1)
SlurmctldPort=$(free)
SlurmdPort=$(free)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$scratch/munge/socket,cred_expire=15
CredType=cred/munge
StateSaveLocation=$scratch/state
SlurmdSpoolDir=$scratch/spool
SlurmctldPidFile=$scratch/slurmctld.pid
SlurmdPidFile=$scratch/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=1,sched_interval=2,sched_min_interval=0,default_queue_depth=100,requeue_delay=1
EnforcePartLimits=ALL
MaxArraySize=5
KillWait=10
MinJobAge=300
ReturnToService=2
NodeName=$node NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=main Nodes=$node Default=YES MaxTime=60 State=UP
CONF

munged --foreground --force --socket="$scratch/munge/socket" --key-file="$scratch/munge.key" \
    --pid-file="$scratch/munge/pid" --seed-file="$scratch/munge/seed" --log-file="$scratch/munged.log" \
    >"$scratch/munged.out.log" 2>&1 &
started+=($!)
for _ in $(seq 100); do [ ! -S "$scratch/munge/socket" ] || break; sleep 0.1; done
slurmctld -D >"$scratch/slurmctld.log" 2>&1 &
started+=($!)
slurmd -D -N "$node" >"$scratch/slurmd.log" 2>&1 &
started+=($!)
for _ in $(seq 300); do
    state=$(sinfo --noheader --format=%T 2>/dev/null || true)
    [ "$state" != idle ] || break
    sleep 0.1
done
[ "$state" = idle ] || fail "Slurm did not start: its node is '${state:-not known}'"
sbatch --version

if [ $# -gt 0 ]; then "$@"; else pytest -m slurm -n0; fi  # one after the other: they count the jobs of this Slurm
