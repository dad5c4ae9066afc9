#!/usr/bin/env bash
# Runs the tests and prints the ten slowest.
#
#   tests/run.sh quick    every package under the race detector at least once
#   tests/run.sh full     what quick leaves out: more rounds of each test, and required times
#   tests/run.sh timed    only the required times of outages
#
# The tests of tests/e2e and tests/processes do not run in parallel with other packages.
set -euo pipefail
cd "$(dirname "$0")/.."

reports=$(mktemp -d)
slowest() {
	echo 'The slowest tests:'
	cat "$reports"/*.json | go tool gotestsum tool slowest --threshold 1ms --num 10
	rm -rf "$reports"
}
trap slowest EXIT

# run NAME ARGUMENT... runs go test with these arguments. It fails if no test passes.
run() {
	local report="$reports/$1.json"
	shift
	go tool gotestsum --format pkgname --format-hide-empty-pkg --jsonfile "$report" -- "$@"
	grep -q '"Action":"pass".*"Test":' "$report" || { echo "no test passed: go test $*" >&2; return 1; }
}

case ${1:-} in
quick)
	apart='/tests/(e2e|processes|sim)$'
	run units -race $(go list ./... ./tests/... ./tests/bench/... ./tests/model/... ./tests/sim/... ./worker/... | grep -vE "$apart")
	run memory -run TestMemory ./breaker
	run sim ./tests/sim
	run sim-race -race -run TestDraw ./tests/sim # all of them take four minutes under the race detector
	run model -run TestBreaker_EqualsReference ./tests/model -rapid.checks=100000
	run e2e -race -timeout 20m ./tests/e2e
	run processes -race -timeout 20m ./tests/processes
	;;
full)
	run sim -race -timeout 20m ./tests/sim
	run model -run TestBreaker_EqualsReference ./tests/model -rapid.checks=1000000
	run e2e -race -parallel 1 -timeout 60m ./tests/e2e -full
	run processes -race -parallel 1 -timeout 30m ./tests/processes
	;;
timed)
	run e2e -race -parallel 1 -timeout 30m -run 'TestDemo|TestOutage$|TestHangingCalls' ./tests/e2e -full
	;;
*)
	echo "usage: $0 quick|full|timed" >&2
	exit 2
	;;
esac
