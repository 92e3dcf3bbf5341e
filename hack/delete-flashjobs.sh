#!/usr/bin/env bash
# hack/delete-flashjobs.sh - deletes every FlashJob of the cluster while the operator still runs, and names those that hang.
#
# `make uninstall` and `make undeploy` come here first. A FlashJob has a finalizer that only a running operator takes
# off; deleting the CRD or the operator before the jobs would leave jobs, and then a CRD or a namespace, that can
# never go. When this script fails, nothing else has been deleted yet.
#
# KUBECTL is the command to use (kubectl), TIMEOUT how long to wait for the jobs to go (120s).
set -euo pipefail

read -ra kubectl <<<"${KUBECTL:-kubectl}"
timeout=${TIMEOUT:-120s}
kind=flashjobs.application.flashjob.nbfc.io
system='operator-system'
operator='operator-controller-manager'

# One line per job: namespace, name, finalizers.
remaining() {
  "${kubectl[@]}" get "$kind" --all-namespaces --ignore-not-found --no-headers \
    -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,FINALIZERS:.metadata.finalizers
}

crd=$("${kubectl[@]}" get crd "$kind" --ignore-not-found -o name)
[[ -n $crd ]] || { echo "This cluster does not know FlashJobs: none to delete."; exit; }

before=$(remaining)
[[ -n $before ]] || { echo "No FlashJobs to delete."; exit; }
count=$(wc -l <<<"$before")
echo "Deleting FlashJobs ($count). A device that is being flashed right now is interrupted."

# Jobs that no operator has touched go without one, so its absence is worth a word and not a refusal.
ready=$("${kubectl[@]}" -n "$system" get deployment "$operator" --ignore-not-found -o 'jsonpath={.status.readyReplicas}')
if [[ $before == *flashjob-finalizer* && ${ready:-0} == 0 ]]; then
  echo "Warning: no operator is ready in $system, so jobs with its finalizer stay unless one runs elsewhere (make run)." >&2
fi

# kubectl fails when a job is still there at the end; whether any is, is looked up below, and so is which.
"${kubectl[@]}" delete "$kind" --all --all-namespaces --timeout="$timeout" || true

left=$(remaining)
[[ -n $left ]] || exit 0
{
  echo
  echo "These FlashJobs are still there after $timeout, so nothing else was deleted:"
  while read -r namespace name finalizers; do
    echo "  $namespace/$name  finalizers: $finalizers"
  done <<<"$left"
  cat <<END

What to do:
  1. See what each waits for:   ${kubectl[*]} describe $kind -n <namespace> <name>
  2. See that an operator runs: ${kubectl[*]} -n $system get pods; without one, start it with make run
     and try again. A longer wait: TIMEOUT=10m.
  3. Only if no operator will ever run here again, take the finalizers off by hand; Pods and Services of the job are
     then garbage-collected:    ${kubectl[*]} patch $kind -n <namespace> <name> --type=merge -p '{"metadata":{"finalizers":null}}'
END
} >&2
exit 1
