#!/usr/bin/env bash
# hack/registry.sh - finds the registry that tests pull firmware from, or gets it.
#
# The flasher's tests talk to a real registry: Debian's `docker-registry`, one program. This script prints its path as
# the last line on stdout; everything else it says goes to stderr. It looks in this order:
#   1. $DOCKER_REGISTRY, the program itself;
#   2. PATH, where `apt-get install docker-registry` puts it;
#   3. this project's cache, ${XDG_CACHE_HOME:-~/.cache}/flashjob/docker-registry, filled once from Debian's package
#      (5 MB) without installing it: that needs no root.
set -euo pipefail
# shellcheck source=hack/debs.sh
. "$(dirname "${BASH_SOURCE[0]}")/debs.sh"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/flashjob/docker-registry
program=$cache/docker-registry

say() { printf '[registry] %s\n' "$*" >&2; }
fail() { echo "$*" >&2; exit 1; }
instead="install Debian's package docker-registry, or set DOCKER_REGISTRY to the program"

# A program that was named is used or refused, never silently replaced by another one.
if [[ -n ${DOCKER_REGISTRY:-} ]]; then
  [[ -f $DOCKER_REGISTRY && -x $DOCKER_REGISTRY ]] || fail "DOCKER_REGISTRY is $DOCKER_REGISTRY, but that is not a program."
  realpath -- "$DOCKER_REGISTRY"
  exit
fi
if file=$(type -P docker-registry); then
  realpath -- "$file"
  exit
fi
# It appears in the cache by one rename, once it has run, so being there is proof enough.
[[ ! -x $program ]] || { echo "$program"; exit; }

mkdir -p "$cache"
temp=$(mktemp -d "$cache/.get.XXXXXX")
trap 'rm -rf "$temp"' EXIT
unpack "$temp" docker-registry
"$temp/root/usr/bin/docker-registry" --version >&2 || fail "Debian's docker-registry does not run here: $instead."
mv -T "$temp/root/usr/bin/docker-registry" "$program"
echo "$program"
