#!/usr/bin/env bash
# hack/node.sh - finds what a node runs beside the kubelet, or gets it: containerd, runc and the network plugins.
#
# It prints, as the last line on stdout, a folder with bin/ (containerd, its shim, ctr, runc, kubectl and a static pause) and cni/
# (bridge, host-local, loopback); everything else it says goes to stderr. It looks in this order:
#   1. $NODE_PROGRAMS, such a folder;
#   2. this project's cache, ${XDG_CACHE_HOME:-~/.cache}/flashjob/node, filled once from Debian's packages (60 MB) without
#      installing them: containerd's would start a service.
set -euo pipefail
# shellcheck source=hack/debs.sh
. "$(dirname "${BASH_SOURCE[0]}")/debs.sh"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/flashjob/node
programs=(bin/containerd bin/containerd-shim-runc-v2 bin/ctr bin/runc bin/kubectl bin/pause cni/bridge cni/host-local cni/loopback)

say() { printf '[node] %s\n' "$*" >&2; }
fail() { echo "$*" >&2; exit 1; }
instead="set NODE_PROGRAMS to a folder with ${programs[*]}"

# missing FOLDER prints the programs that FOLDER lacks.
missing() {
  local program list=''
  for program in "${programs[@]}"; do [[ -f $1/$program && -x $1/$program ]] || list+=" $program"; done
  echo "${list# }"
}

# A folder that was named is used or refused, never silently replaced by another one.
if [[ -n ${NODE_PROGRAMS:-} ]]; then
  lacks=$(missing "$NODE_PROGRAMS")
  [[ -z $lacks ]] || fail "NODE_PROGRAMS is $NODE_PROGRAMS, but that folder lacks ${lacks// /, }."
  realpath -- "$NODE_PROGRAMS"
  exit
fi
# It appears in the cache by one rename, once its programs have run, so being there is proof enough.
[[ -n $(missing "$cache") ]] || { echo "$cache"; exit; }

type -P cc >/dev/null || fail "There is no C compiler (cc) to build pause with: $instead."
mkdir -p "${cache%/*}"
temp=$(mktemp -d "$cache.XXXXXX")
trap 'rm -rf "$temp"' EXIT
unpack "$temp" containerd runc containernetworking-plugins kubernetes-client
mkdir -p "$temp/node/bin" "$temp/node/cni"
mv "$temp"/root/usr/bin/{containerd,containerd-shim-runc-v2,ctr,kubectl} "$temp/root/usr/sbin/runc" "$temp/node/bin/"
mv "$temp"/root/usr/lib/cni/{bridge,host-local,loopback} "$temp/node/cni/"
# What holds a Pod's namespaces. As the first process of a Pod it also has to let the dead go.
printf '%s\n' '#include <signal.h>' '#include <unistd.h>' \
  'int main(void) { signal(SIGCHLD, SIG_IGN); for (;;) pause(); }' >"$temp/pause.c"
cc -O2 -static -s -o "$temp/node/bin/pause" "$temp/pause.c" || fail "pause cannot be built statically: $instead."
for try in 'containerd --version' 'runc --version' 'kubectl version --client'; do
  # shellcheck disable=SC2086  # a program and its arguments
  "$temp/node/bin/"$try >&2 || fail "Debian's ${try%% *} does not run here: $instead."
done
rm -rf "$cache"
mv -T "$temp/node" "$cache"
echo "$cache"
