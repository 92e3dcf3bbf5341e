#!/usr/bin/env bash
# hack/cli-package.sh PROGRAM - packs kubectl-flashjob for one target, and writes the manifest krew installs it by.
#
# TARGET is the target it was built for. CLI_URL is where the archive will be found; krew downloads it from there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
program=$1
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
case $TARGET in
  *-linux-*) os=linux ;;
  *-apple-darwin) os=darwin ;;
  *) echo "cli-package: krew has no name for $TARGET; set TARGET to a Linux or macOS target" >&2; exit 1 ;;
esac
case $TARGET in
  x86_64-*) arch=amd64 ;;
  aarch64-*) arch=arm64 ;;
  *) echo "cli-package: krew has no name for the processor of $TARGET" >&2; exit 1 ;;
esac

archive=target/kubectl-flashjob-$version-$os-$arch.tar.gz
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
install -m 0755 "$program" "$folder/kubectl-flashjob"
install -m 0644 LICENSE "$folder/LICENSE"
# The same files give the same archive, whenever and by whomever it is packed.
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$folder" -cf - . | gzip -n >"$archive"
sum=$(sha256sum "$archive" | cut -d' ' -f1)
url=${CLI_URL:-https://example.invalid/$(basename "$archive")}

cat >target/krew.yaml <<MANIFEST
# For krew: kubectl krew install --manifest=target/krew.yaml --archive=$archive
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: flashjob
spec:
  version: v$version
  shortDescription: Roll firmware out to devices found by Akri
  description: |
    Lists the devices Akri has found, rolls firmware out to them as FlashJobs, in batches and with a limit on failures, and
    shows how it goes and what to do where it does not. Needs the flashjob operator in the cluster.
  platforms:
    - selector:
        matchLabels:
          os: $os
          arch: $arch
      uri: $url
      sha256: $sum
      bin: kubectl-flashjob
MANIFEST
echo "packed $archive and wrote target/krew.yaml"
[[ -n ${CLI_URL:-} ]] || echo 'The manifest names no address yet: set CLI_URL to where the archive will be found.'
