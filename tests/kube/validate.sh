#!/usr/bin/env bash
# Checks every manifest against the schemas of Kubernetes and of the operators whose objects are used; a field that a
# schema does not have is an error. Prints: figure manifests_validated <number of manifests> manifests
#
# The schemas of Kubernetes come with the package kubernetes-validate (tests/kube/requirements.txt). If the package index
# can not be reached and it is not installed yet, this is skipped: exit code 77.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/python_environment.sh"
environment=$(python_environment kube "$here/requirements.txt")
exec "$environment/bin/python" "$here/validate.py"
