#!/usr/bin/env bash
# hack/mbedtls.sh - finds the TLS library that boards have, or gets it.
#
# One test of the flasher is called by a client on mbedTLS, because boards are. It is compiled against Debian's
# libmbedtls-dev. This script prints the folder that holds its include and lib as the last line on stdout; everything
# else it says goes to stderr. It looks in this order:
#   1. $MBEDTLS, such a folder;
#   2. /usr, where `apt-get install libmbedtls-dev` puts it;
#   3. this project's cache, ${XDG_CACHE_HOME:-~/.cache}/flashjob/mbedtls, filled once from Debian's package (1 MB)
#      without installing it: that needs no root. Its libraries are static, so it needs nothing else.
set -euo pipefail
# shellcheck source=hack/debs.sh
. "$(dirname "${BASH_SOURCE[0]}")/debs.sh"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/flashjob/mbedtls
folder=$cache/dev

say() { printf '[mbedtls] %s\n' "$*" >&2; }
fail() { echo "$*" >&2; exit 1; }
instead="install Debian's package libmbedtls-dev, or set MBEDTLS to the folder with its include and lib"
has_it() { [[ -f $1/include/mbedtls/ssl.h ]]; }

type -P cc >/dev/null || fail 'There is no C compiler (cc) to build the client with.'
# A folder that was named is used or refused, never silently replaced by another one.
if [[ -n ${MBEDTLS:-} ]]; then
  has_it "$MBEDTLS" || fail "MBEDTLS is $MBEDTLS, but that has no include/mbedtls/ssl.h."
  realpath -- "$MBEDTLS"
  exit
fi
! has_it /usr || { echo /usr; exit; }
# It appears in the cache by one rename, once a program was linked with it, so being there is proof enough.
! has_it "$folder" || { echo "$folder"; exit; }

mkdir -p "$cache"
temp=$(mktemp -d "$cache/.get.XXXXXX")
trap 'rm -rf "$temp"' EXIT
unpack "$temp" libmbedtls-dev
mkdir -p "$temp/dev/lib"
mv "$temp/root/usr/include" "$temp/dev/"
# The links to shared libraries stay behind: what they lead to is in other packages.
mv "$temp"/root/usr/lib/*/*.a "$temp/dev/lib/"
printf '%s\n' '#include <mbedtls/ssl.h>' 'int main(void) { mbedtls_ssl_context c; mbedtls_ssl_init(&c); return 0; }' \
  >"$temp/try.c"
flags=(-I"$temp/dev/include" -L"$temp/dev/lib" -lmbedtls -lmbedx509 -lmbedcrypto)
{ cc -o "$temp/try" "$temp/try.c" "${flags[@]}" >&2 && "$temp/try"; } ||
  fail "Nothing can be built with Debian's libmbedtls-dev here: $instead."
# Another one may have been quicker, with the same result.
mv -T "$temp/dev" "$folder" 2>/dev/null || has_it "$folder" || fail "$folder is in the way."
echo "$folder"
