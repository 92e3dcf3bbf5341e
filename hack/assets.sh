#!/usr/bin/env bash
# hack/assets.sh - finds the Kubernetes programs that tests and the demo run against, or builds them.
#
# The tests talk to a real kube-apiserver and a real etcd, never to a mock. This script prints, as the last
# line on stdout, a folder that holds both; everything else it says goes to stderr. It looks in this order:
#   1. $KUBEBUILDER_ASSETS, the folder that setup-envtest makes;
#   2. the programs on PATH;
#   3. this project's cache, ${XDG_CACHE_HOME:-~/.cache}/flashjob/k8s-1.20.2, filled once (about five minutes)
#      from Debian's source package `kubernetes` with Debian's own Go: a bare Debian 12 needs nothing else.
# ASSETS=node also wants what a whole node needs: kube-controller-manager, kube-scheduler and kubelet.
set -euo pipefail

version=1.20.2
home=${XDG_CACHE_HOME:-$HOME/.cache}/flashjob
cache=$home/k8s-$version
log=$cache/build.log
disk_gb=6

basics=(etcd kube-apiserver)
extras=(kube-controller-manager kube-scheduler kubelet)
case ${ASSETS:-} in
  '')   wanted=("${basics[@]}") ;;
  node) wanted=("${basics[@]}" "${extras[@]}") ;;
  *)    echo "ASSETS is '$ASSETS', but it can only be 'node' or empty." >&2; exit 1 ;;
esac

# Talking to the person who waits. SECONDS is bash's own clock, started with the script.
say() { printf '[assets %02d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }
fail() { echo "$*" >&2; exit 1; }
instead="set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver (setup-envtest makes one)"

# missing FOLDER PROGRAM... prints the programs that FOLDER lacks, and nothing when it has them all.
missing() {
  local folder=$1 program list=''; shift
  for program; do [[ -f $folder/$program && -x $folder/$program ]] || list+=" $program"; done
  echo "${list# }"
}

# ---- 1. The folder the person named: it is used or refused, never silently replaced by another one.
if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
  lacks=$(missing "$KUBEBUILDER_ASSETS" "${basics[@]}")
  [[ -z $lacks ]] || fail "KUBEBUILDER_ASSETS is $KUBEBUILDER_ASSETS, but that folder lacks ${lacks// / and }."
  lacks=$(missing "$KUBEBUILDER_ASSETS" "${wanted[@]}")
  [[ -z $lacks ]] || say "$KUBEBUILDER_ASSETS lacks ${lacks// /, }: tests that need them are skipped"
  (CDPATH='' cd -- "$KUBEBUILDER_ASSETS" && pwd)
  exit
fi

# ---- 2. PATH, if it has every wanted program. Callers need one folder, so programs that live apart are linked
# into one; each link is renamed into place because another run may be reading the folder right now.
found=()
for program in "${wanted[@]}"; do
  file=$(type -P "$program") || break
  [[ $file == /* ]] || file=$PWD/$file
  found+=("$file")
done
if ((${#found[@]} == ${#wanted[@]})); then
  folder=${found[0]%/*}
  if [[ -n $(missing "$folder" "${wanted[@]}") ]]; then
    folder=$home/from-path
    mkdir -p "$folder"
    for file in "${found[@]}"; do
      ln -s "$file" "$folder/.${file##*/}.$$"
      mv -T "$folder/.${file##*/}.$$" "$folder/${file##*/}"
    done
  fi
  echo "$folder"
  exit
fi

# ---- 3. The cache. A program appears in it by one rename, once it is whole and has run, so being there is
# proof enough and this check needs no lock.
finish() { echo "$cache"; exit; }
[[ -n $(missing "$cache" "${wanted[@]}") ]] || finish

# From here on something must be built: first find out whether this machine can.
# shellcheck source=/dev/null
os=$(. /etc/os-release 2>/dev/null && type -P apt-get >/dev/null && echo "${ID:-} ${VERSION_ID:-}") || os=
[[ $os == "debian 12" ]] ||
  fail "Building kube-apiserver and etcd needs Debian 12 with apt-get, which this machine does not have: $instead."
((EUID == 0)) ||
  fail "Building kube-apiserver and etcd needs root, to install Debian's Go: run this as root, or $instead."
mkdir -p "$cache"

# One build at a time. The lock goes away with the process that holds it, however that process ends.
exec 9>"$cache/.lock"
if ! flock -n 9; then
  say "another run is building in $cache: waiting for it"
  flock 9
fi
[[ -n $(missing "$cache" "${wanted[@]}") ]] || finish

# A run that was killed outright could not tidy up. We hold the lock, so its tree belongs to nobody.
rm -rf "$cache"/.build.* || true
free_kb=$(df --output=avail -k "$cache" | tail -n 1)
((free_kb >= disk_gb * 1024 * 1024)) ||
  fail "Building in $cache needs $disk_gb GB of free disk and there are $((free_kb / 1024 / 1024)): free some, or $instead."

# The build tree is on the cache's own file system (so that a finished program is moved by a rename), and goes
# away in every case. Steps run in a process group of their own, so that Ctrl-C ends the compilers too and
# not only their parent - except while dpkg is at work, which is let to finish: a half-configured package
# would be a mess on somebody's machine.
work=$(mktemp -d "$cache/.build.XXXXXX")
step_pid='' patient=''
# shellcheck disable=SC2317  # the trap calls it
tidy() {
  trap '' INT TERM HUP
  if [[ -n $step_pid ]]; then
    [[ -n $patient ]] || kill -- "-$step_pid" 2>/dev/null || true
    wait "$step_pid" 2>/dev/null || true
  fi
  # A compiler that is just ending may still write a file under our hands: then try once more.
  rm -rf "$work" 2>/dev/null || { sleep 1; rm -rf "$work"; }
}
trap tidy EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# step TEXT COMMAND... runs one step: says so, keeps the command's own output in the log, gives a sign of life
# every 20 seconds, and ends the script with the tail of the log if the command fails. The step does not
# inherit the lock (9>&-), so nothing it leaves behind could hold it.
: >"$log"
step() {
  local text=$1 next=$((SECONDS + 20)); shift
  say "$text"
  printf '\n==== %s\n' "$text" >>"$log"
  setsid "$@" </dev/null >>"$log" 2>&1 9>&- &
  step_pid=$!
  while kill -0 "$step_pid" 2>/dev/null; do
    sleep 0.3
    ((SECONDS < next)) || { say "  still ${text%% (*}"; next=$((SECONDS + 20)); }
  done
  local status=0
  wait "$step_pid" || status=$?
  step_pid=''
  ((status == 0)) && return
  tail -n 25 "$log" >&2
  fail "The step '${text%% (*}' failed (status $status); all of its output is in $log: mend the cause, or $instead."
}

# place FILE puts a finished program into the cache. It must run first: that finds a missing library, too.
place() {
  step "checking ${1##*/}" "$1" --version
  mv "$1" "$cache/"
}

# apt works on a copy of the machine's own package sources, with lists and downloads inside the build tree. So it
# does not matter whether the machine's lists are there or old, they stay as they are, sources that
# can be fetched are added to the copy only, and no host name needs to be written here.
mkdir -p "$work"/apt/{sources,lists/partial,cache/archives/partial} "$work/etcd" "$work/src" "$work/tmp"
cat >"$work/apt/conf" <<END
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/apt/sources";
Dir::State::lists "$work/apt/lists";
Dir::Cache "$work/apt/cache";
DPkg::Lock::Timeout "300";
// The user _apt cannot read a folder below /root; and what a machine does after each update is about its own lists.
APT::Sandbox::User "root";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
END
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.{list,sources}; do
  [[ -f $file ]] || continue
  case $file in
    *.sources) sed -E 's/^Types:.*/Types: deb deb-src/I' "$file" ;;
    *)         sed -nE 's/^[[:space:]]*deb([[:space:]].*)/deb\1\ndeb-src\1/p' "$file" ;;
  esac >"$work/apt/sources/${file##*/}"
done
apt=(env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -c "$work/apt/conf" -q -y)

# A third party's list that cannot be fetched is no reason to stop, so this step cannot fail: what counts is
# whether the version we know how to build can be had afterwards.
step "fetching the package lists" bash -c '"$@" || true' - "${apt[@]}" update
full=$(apt-cache -c "$work/apt/conf" showsrc --only-source kubernetes 2>>"$log" |
  sed -nE "s/^Version: (([^ ]*[^0-9.])?${version//./\\.}-.*)/\1/p" | sort -V | tail -n 1) || true
[[ -n $full ]] ||
  fail "No apt source of this machine could be reached that has the source package kubernetes $version (apt's words are in $log): check the network and that Debian 12's main is listed, or $instead."

# etcd's package would start a service when installed, so only the program is taken out of it.
if [[ -n $(missing "$cache" etcd) ]]; then
  step "fetching etcd" env -C "$work/etcd" "${apt[@]}" download etcd-server
  dpkg -x "$work"/etcd/*.deb "$work/etcd"
  place "$work/etcd/usr/bin/etcd"
fi

todo=$(missing "$cache" "${wanted[@]}")
if [[ -n $todo ]]; then
  patient=yes
  step "installing Debian's Go and the build tools" "${apt[@]}" install --no-install-recommends \
    golang-go golang-github-modern-go-reflect2-dev rsync jq dpkg-dev
  patient=
  step "fetching the source of Kubernetes $version" env -C "$work/src" "${apt[@]}" source "kubernetes=$full"
  tree=$(echo "$work"/src/kubernetes-*/)
  tree=${tree%/}

  # The reflect2 that the tarball carries is too old for Go 1.18 and later: kube-apiserver would start, and
  # crash on the first custom resource. Debian's copy is a newer one.
  rm -rf "$tree/vendor/github.com/modern-go/reflect2"
  cp -rL /usr/share/gocode/src/github.com/modern-go/reflect2 "$tree/vendor/github.com/modern-go/"
  # Compiled with Go 1.19, a comparison in the CRD validation takes every empty string for null and refuses it. A null is
  # caught by the other half of the condition.
  check=$tree/vendor/k8s.io/kube-openapi/pkg/validation/validate/type.go
  sed -i 's/if data == nil || reflect.DeepEqual(.*) {/if data == nil {/' "$check"
  grep -q 'if data == nil {' "$check" || fail "The source of Kubernetes $full is not what this script knows: $check."

  # There is no git history to read a version from, and clients look at the version.
  printf "%s\n" "KUBE_GIT_VERSION=v$version" KUBE_GIT_MAJOR=1 KUBE_GIT_MINOR=20 KUBE_GIT_TREE_STATE=archive \
    "KUBE_GIT_COMMIT=debian-$full" >"$work/version"
  mkdir -p "$tree/.go/src/k8s.io"
  ln -s "$tree" "$tree/.go/src/k8s.io/kubernetes"

  # An empty environment, because a developer's own Go, GOFLAGS or MAKEFLAGS must not leak in. Go's caches are
  # in the build tree, and the programs are stripped of symbols (-s -w).
  compile() {
    local text=$1; shift
    step "$text" env -i PATH=/usr/lib/go/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
      HOME="$work/tmp" TMPDIR="$work/tmp" GOCACHE="$work/gocache" GOPATH="$tree/.go" \
      GO111MODULE=off CGO_ENABLED=0 GOLDFLAGS="-s -w" KUBE_GIT_VERSION_FILE="$work/version" \
      make -C "$tree" WHAT="${*/#/cmd/}"
    local program
    for program; do place "$tree/_output/bin/$program"; done
  }
  # kube-apiserver comes first and is in place before the rest, since most tests need no more than that.
  [[ " $todo " != *" kube-apiserver "* ]] ||
    compile "compiling kube-apiserver (3 to 5 minutes on 2 cores)" kube-apiserver
  read -ra todo <<<"$(missing "$cache" "${wanted[@]}")"
  ((${#todo[@]} == 0)) ||
    compile "compiling $(printf '%s, ' "${todo[@]}" | sed 's/, $//') (1 to 5 minutes on 2 cores)" "${todo[@]}"
fi

rm -f "$log"
say "done: $cache"
finish
