#!/usr/bin/env bash
# Tests the Helm chart: runs test_chart.py beside this script with a Helm, validators and schemas
# whose versions are pinned. Needs Go. ENROUTE is the program [default: the debug build], CHART the
# chart [default: that of the repository].
set -euo pipefail
cd "$(dirname "$0")/.."
tools=$PWD/.deps/test-release
operator=github.com/prometheus-operator/prometheus-operator@v0.85.0
operator_sum=h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=

if ! command -v go >/dev/null; then
    echo 'SKIPPED: tests of the Helm chart; go is not on PATH'
    [ "${CI:-}" != true ]
    exit
fi
[ -x "$tools/bin/python" ] || python3 -m venv "$tools"
"$tools/bin/python" -m pip install -q --disable-pip-version-check --no-deps -r packaging/test-requirements.txt
(cd packaging && GOBIN=$tools/bin CGO_ENABLED=0 go install -trimpath helm.sh/helm/v3/cmd/helm)
downloaded=$(go mod download -json "$operator")
grep -qF "\"Sum\": \"$operator_sum\"" <<<"$downloaded" || { echo "$operator: expected $operator_sum"; exit 1; }
PROMETHEUS_OPERATOR=$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' <<<"$downloaded")
export PROMETHEUS_OPERATOR
PYTHONPATH=$PWD PATH=$tools/bin:$PATH "$tools/bin/python" packaging/test_chart.py "$@"
