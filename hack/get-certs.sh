#!/usr/bin/env bash
# hack/get-certs.sh [FOLDER] - writes what a device needs to register, ca.pem, cert.pem and key.pem, to FOLDER (/tmp).
#
# cert.pem and key.pem are the registration certificate that is newest and can be used: it has not expired, fits its key, and
# is of the cluster's CA. Without openssl none of that can be seen, and the newest is taken. Only the one who runs this may
# read the files; key.pem lets any device ask to be let in, so keep it as a secret. The key is never shown.
#
# KUBECTL is the command to use (kubectl).
set -euo pipefail
umask 077

read -ra kubectl <<<"${KUBECTL:-kubectl}"
folder=${1:-/tmp}
namespace='flotta'
hint="Is the Edge system installed (make deploy-edge), and does its process run? ${kubectl[*]} -n $namespace get pods"

fail() { echo "$*" >&2; exit 1; }

# part SECRET KEY FILE: writes that part of the Secret to FILE. False when there is no such part.
part() {
  local text
  text=$("${kubectl[@]}" -n "$namespace" get secret "$1" --ignore-not-found -o "jsonpath={.data.${2//./\\.}}") || exit
  [[ -n $text ]] && printf %s "$text" | base64 --decode >"$3" 2>/dev/null && [[ -s $3 ]]
}

public() { openssl "$@" 2>/dev/null; }

# Says what is wrong with the pair in $temp; says nothing when it can be used.
wrong() {
  command -v openssl >/dev/null || return 0
  openssl x509 -noout -in "$temp/cert.pem" 2>/dev/null || { echo "client.crt is no certificate"; return; }
  openssl x509 -checkend 0 -noout -in "$temp/cert.pem" >/dev/null || { echo "it has expired"; return; }
  local key
  key=$(public pkey -pubout -in "$temp/key.pem") || { echo "client.key is no key"; return; }
  [[ $key == "$(public x509 -pubkey -noout -in "$temp/cert.pem")" ]] || { echo "client.key is not that of client.crt"; return; }
  openssl verify -CAfile "$temp/trusted.pem" "$temp/cert.pem" >/dev/null 2>&1 || echo "it is not of the CA in Secret flotta-ca"
}

[[ -d $folder ]] || fail "There is no folder $folder."
for file in ca.pem cert.pem key.pem; do
  [[ ! -d $folder/$file ]] || fail "$folder/$file is a folder."
done
# Written beside their place and moved, so that nobody sees half of a key or gets hold of it by a file that was there before.
temp=$(mktemp -d "$folder/.get-certs.XXXXXX")
trap 'rm -rf "$temp"' EXIT

part flotta-ca ca.crt "$temp/ca.pem" || fail "There is no CA in namespace $namespace yet (Secret flotta-ca, key ca.crt). $hint"
cp "$temp/ca.pem" "$temp/trusted.pem"
# While a CA is being replaced, certificates of the one before it are good, too.
if part flotta-ca previous.crt "$temp/previous.pem"; then
  cat "$temp/previous.pem" >>"$temp/trusted.pem"
fi

names=$("${kubectl[@]}" -n "$namespace" get secrets -l reg-client-ca=true --sort-by=.metadata.creationTimestamp \
  -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}')
[[ -n $names ]] ||
  fail "There is no registration certificate in namespace $namespace yet (Secrets with the label reg-client-ca=true). $hint"
newest=()
while read -r name; do newest=("$name" ${newest[@]+"${newest[@]}"}); done <<<"$names"

found=
for name in "${newest[@]}"; do
  why='client.crt or client.key is missing'
  if part "$name" client.crt "$temp/cert.pem" && part "$name" client.key "$temp/key.pem"; then
    why=$(wrong)
    [[ -n $why ]] || { found=$name; break; }
  fi
  echo "Secret $name is passed over: $why" >&2
done
[[ -n $found ]] ||
  fail "No registration certificate in namespace $namespace can be used. A process that serves makes a new one. $hint"

for file in ca.pem cert.pem key.pem; do
  mv -f "$temp/$file" "$folder/$file"
done
echo "wrote ca.pem, cert.pem and key.pem to $folder, from Secrets flotta-ca and $found"
command -v openssl >/dev/null || echo "openssl is not there: whether the certificate is still good was not checked" >&2
