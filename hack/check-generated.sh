#!/usr/bin/env bash
# hack/check-generated.sh - fails when a generated file no longer says what its source says.
#
# The CRDs come from the types in crates/api, the installers in dist/ from config/. They are in git so that people can read and
# apply them without building anything; this keeps them honest. It compares with fresh copies and changes nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT

IMG='' FLASHER_IMG='' hack/build-installer.sh >"$temp/install.yaml"
IMG='' hack/build-installer.sh --edge >"$temp/install-edge.yaml"

stale=()
compare() { # compare FILE FRESH
  diff --unified=1 --label "$1" --label "$1 (generated now)" "$1" "$2" >&2 || stale+=("$1")
}
# GROUP_PLURAL.yaml is what `crd PLURAL` prints. That none is missing is a test of crates/api.
for crd in config/crd/bases/*_*.yaml; do
  name=${crd##*_}
  cargo run --quiet --locked -p flashjob-operator -- crd "${name%.yaml}" >"$temp/crd.yaml"
  compare "$crd" "$temp/crd.yaml"
done
compare dist/install.yaml "$temp/install.yaml"
compare dist/install-edge.yaml "$temp/install-edge.yaml"

((${#stale[@]} == 0)) || {
  echo "Out of date: ${stale[*]}. Run make manifests and commit the result." >&2
  exit 1
}
