#!/usr/bin/env bash
# hack/fence.sh COMMAND... - runs a command in a world of its own, of which nothing is left when the command ends.
#
# A node changes the machine it is on: network devices, mounts, cgroups, files below /var and /run, kernel settings, and
# processes that outlive whoever started them. Here all of that happens behind a fence:
#   processes  a PID namespace: the kernel ends everything in it when its first process ends, however that happens
#   network    a network namespace with nothing but a loopback: nothing gets out, and addresses collide with nobody's
#   files      a mount namespace: /run is empty, what is written below /var goes to a scratch folder, and so does what
#              programs write to $TMPDIR
#   settings   those a kubelet changes are files of our own behind the fence
#   cgroups    one of our own in each hierarchy, $FENCE_CGROUP, removed at the end
# Everything else is the machine's own. It needs root and util-linux.
set -euo pipefail

# Kernel settings that a kubelet wants, and the values it wants. They are the whole machine's, so it must not set them.
settings=(vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000)

if [[ ${1:-} == --inside ]]; then
  shift
  scratch=$FENCE_SCRATCH
  ip link set lo up
  mkdir -p "$scratch"/{var,var.work,sys,tmp}
  export TMPDIR=$scratch/tmp
  mount -t overlay -o "lowerdir=/var,upperdir=$scratch/var,workdir=$scratch/var.work" overlay /var
  mount -t tmpfs -o mode=755 tmpfs /run
  for setting in "${settings[@]}"; do
    name=${setting%=*} file=$scratch/sys/${setting//\//.}
    [[ -e /proc/sys/$name ]] || continue
    echo "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/$name"
  done
  # Not exec: this shell is the first process, and the first process lets the dead go.
  "$@"
  exit
fi

(($# > 0)) || { echo 'Usage: hack/fence.sh COMMAND...' >&2; exit 1; }
((EUID == 0)) || { echo 'hack/fence.sh needs root: namespaces, mounts and cgroups are made.' >&2; exit 1; }

roots=()
if [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
  roots=(/sys/fs/cgroup)
else
  for root in /sys/fs/cgroup/*/; do [[ ! -e $root/cgroup.procs ]] || roots+=("${root%/}"); done
fi

# remove SCRATCH takes away what is left of a fence when its processes are gone: the cgroups of that name, and the folder.
remove() {
  local cgroup=/${1##*/} root left
  # The last processes may be ending right now.
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    left=
    for root in "${roots[@]}"; do
      [[ ! -d $root$cgroup ]] || find "$root$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null || left=yes
    done
    [[ -n $left ]] || ! rm -rf "$1" 2>/dev/null || return 0
    sleep 0.5
  done
  echo "fence: something of ${1##*/} is left, see /sys/fs/cgroup and $1" >&2
}

# One that was killed outright could not tidy up; nobody holds its lock any more.
for old in /tmp/flashjob-fence-*/; do
  [[ ! -e ${old}lock ]] || { flock -n 9 && remove "${old%/}"; } 9<"${old}lock" || true
done

scratch=$(mktemp -d /tmp/flashjob-fence-XXXXXX)
cgroup=/${scratch##*/}
exec 9>"$scratch/lock"
flock 9

pid=
# shellcheck disable=SC2317  # the trap calls it
tidy() {
  trap '' INT TERM HUP
  [[ -z $pid ]] || { kill -KILL "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
  remove "$scratch"
}
trap tidy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

for root in "${roots[@]}"; do
  mkdir "$root$cgroup"
  # In the unified hierarchy a group has the controllers that its parent passes on.
  [[ ! -e $root/cgroup.controllers || ${#roots[@]} -gt 1 ]] ||
    for control in "$root" "$root$cgroup"; do
      sed 's/[^ ]*/+&/g' "$root/cgroup.controllers" >"$control/cgroup.subtree_control" || true
    done
done

# When this shell is killed, so is the first process behind the fence, and with it everything there.
FENCE_SCRATCH=$scratch FENCE_CGROUP=$cgroup setpriv --pdeathsig KILL \
  unshare --mount --pid --fork --net --uts --ipc --mount-proc --kill-child "${BASH_SOURCE[0]}" --inside "$@" <&0 &
pid=$!
status=0
wait "$pid" || status=$?
pid=
exit "$status"
