#!/usr/bin/env bash
# hack/e2e.sh - FlashJobs on a real cluster, with real Pods and simulated boards: what `make e2e` runs.
#
# Without E2E_KUBECONFIG it makes a node of this machine, behind a fence (hack/fence.sh), so that nothing of it is left.
# That needs root and Debian 12. With E2E_KUBECONFIG=<file> it uses that cluster, and then it must be told more:
#   E2E_IMG, E2E_FLASHER_IMG  the operator's and the flasher's image (make docker-build docker-push), which nodes can pull
#   E2E_HOST                  an IPv4 address of this machine that Pods reach; boards, registry and attestation listen there
# The cluster must have a load balancer whose addresses this machine reaches on port 4433, no flashjob and no namespace
# flashjob-e2e; and Akri's Instance CRD must be absent or Akri's own. Scenarios that stop a kubelet are left out.
# E2E_ONLY=<words> runs only scenarios with these words in their names. E2E_KEEP=1 keeps everything up until Ctrl-C.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf '[e2e %02d:%02d] %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*" >&2; }
fail() { echo "$*" >&2; exit 1; }
test=(cargo test --locked -p flashjob-operator --test node -- --ignored --nocapture --test-threads=1)

if [[ -n ${E2E_KUBECONFIG:-} ]]; then
  [[ -s $E2E_KUBECONFIG ]] || fail "E2E_KUBECONFIG is $E2E_KUBECONFIG, but there is no such file."
  for name in E2E_IMG E2E_FLASHER_IMG E2E_HOST; do
    [[ -n ${!name:-} ]] || fail "With E2E_KUBECONFIG also set $name: the head of hack/e2e.sh says to what."
  done
  type -P kubectl >/dev/null || fail 'There is no kubectl.'
  E2E_KUBECONFIG=$(realpath -- "$E2E_KUBECONFIG")
  DOCKER_REGISTRY=$(hack/registry.sh)
  export E2E_KUBECONFIG DOCKER_REGISTRY
  exec "${test[@]}"
fi

instead='or name a cluster with E2E_KUBECONFIG (see the head of hack/e2e.sh)'
# shellcheck source=/dev/null
os=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") || os=
[[ $os == 'debian 12' ]] || fail "make e2e makes a node of this machine, and knows how on Debian 12 only: use one, $instead."
((EUID == 0)) || fail "make e2e makes a node of this machine, and that needs root: run it as root, $instead."

packages=()
type -P buildah >/dev/null || packages+=(buildah)
type -P ip >/dev/null || packages+=(iproute2)
if ((${#packages[@]} > 0)); then
  say "installing ${packages[*]}"
  log=$(mktemp)
  install() { DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${packages[@]}" >"$log" 2>&1; }
  install || { apt-get update >/dev/null 2>&1 && install; } ||
    { tail -n 5 "$log" >&2; fail "apt-get cannot install ${packages[*]}: its words are in $log."; }
  rm -f "$log"
fi

say 'finding the programs of cluster, node and registry'
KUBEBUILDER_ASSETS=$(ASSETS=node hack/assets.sh)
E2E_NODE=$(hack/node.sh)
DOCKER_REGISTRY=$(hack/registry.sh)

export E2E_IMG=localhost/flashjob-operator:e2e E2E_FLASHER_IMG=localhost/flashjob-flasher:e2e
say "building the images (make docker-build; some minutes the first time)"
E2E_IMAGES=$PWD/target/e2e
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
buildah=(buildah --root "$store/root" --runroot "$store/run")
make docker-build CONTAINER_TOOL="${buildah[*]}" IMG="$E2E_IMG" FLASHER_IMG="$E2E_FLASHER_IMG" >"$store/log" 2>&1 ||
  { tail -n 25 "$store/log" >&2; fail 'The images cannot be built.'; }
pause=localhost/pause:e2e
mkdir "$store/pause"
cp "$E2E_NODE/bin/pause" "$store/pause/"
printf '%s\n' 'FROM scratch' 'COPY pause /pause' 'ENTRYPOINT ["/pause"]' >"$store/pause/Dockerfile"
"${buildah[@]}" build -q -t "$pause" "$store/pause" >"$store/log" 2>&1 || { cat "$store/log" >&2; fail 'No pause image.'; }
rm -rf "$E2E_IMAGES"
mkdir -p "$E2E_IMAGES"
for image in "$E2E_IMG" "$E2E_FLASHER_IMG" "$pause"; do
  file=${image##*/}
  "${buildah[@]}" push -q "$image" "docker-archive:$E2E_IMAGES/${file%:*}.tar:$image"
done

say 'building the tests'
# Behind the fence there is no network, so everything is built before.
cargo test --locked -p flashjob-operator --test node --no-run
export KUBEBUILDER_ASSETS E2E_NODE DOCKER_REGISTRY E2E_IMAGES
PATH=$E2E_NODE/bin:$PATH hack/fence.sh "${test[@]:0:2}" --offline "${test[@]:2}"
say 'done'
