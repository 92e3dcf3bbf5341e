# shellcheck shell=bash
# shellcheck disable=SC2154  # $instead is the other's
# hack/debs.sh - takes programs and libraries out of Debian's packages without installing them. For scripts to source.
#
# It needs no root, starts no service and changes nothing on the machine. The script that sources it has say, fail and
# $instead: what a person can do when the package cannot be had.

# unpack FOLDER PACKAGE... downloads the packages and unpacks them into FOLDER/root. apt's words are in FOLDER/log.
unpack() {
  local folder=$1 tool; shift
  for tool in apt-get dpkg-deb; do
    type -P "$tool" >/dev/null || fail "Not found: $*; and without $tool it cannot be had from Debian: $instead."
  done
  mkdir -p "$folder/debs"
  say "getting $* from Debian"
  get() { (cd "$folder/debs" && apt-get download "$@") >>"$folder/log" 2>&1; }
  # A machine that has never looked at the archive does not know where the package is; root can look.
  get "$@" || { ((EUID == 0)) && apt-get update >>"$folder/log" 2>&1 && get "$@"; } || {
    tail -n 5 "$folder/log" >&2
    fail "apt-get cannot download $* (as root, apt-get update may help): $instead."
  }
  local deb
  for deb in "$folder"/debs/*.deb; do dpkg-deb -x "$deb" "$folder/root"; done
}
