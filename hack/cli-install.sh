#!/usr/bin/env bash
# hack/cli-install.sh PROGRAM FOLDER - puts kubectl-flashjob into a folder of the PATH, and beside it what kubectl asks for
# completion.
set -euo pipefail
program=$1 folder=$2

mkdir -p "$folder"
install -m 0755 "$program" "$folder/kubectl-flashjob"
# kubectl 1.26 and later runs this for `kubectl flashjob <TAB>`.
cat >"$folder/kubectl_complete-flashjob" <<'SCRIPT'
#!/usr/bin/env sh
exec kubectl-flashjob __complete -- "$@"
SCRIPT
chmod 0755 "$folder/kubectl_complete-flashjob"
echo "installed $folder/kubectl-flashjob and $folder/kubectl_complete-flashjob"

case ":$PATH:" in
  *":$folder:"*) echo "try: kubectl flashjob devices" ;;
  *) echo "$folder is not on your PATH: add it, then try: kubectl flashjob devices" ;;
esac
