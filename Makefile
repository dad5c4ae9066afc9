.PHONY: demo test test-all test-newer-sdk bench sim push histories lint

modules = ./... ./tests/... ./tests/bench/... ./tests/model/... ./tests/sim/... ./worker/...

# An outage on an embedded Temporal server, in about a minute.
demo:
	go run ./worker demo

# Every package under the race detector, end-to-end tests and fleets of processes
# included, and 100,000 random sequences of the breaker against its reference model.
test:
	tests/run.sh quick

# Also what make test leaves out: more rounds of each test, and required times.
test-all: test
	tests/run.sh full

# The library's tests with a newer SDK than the embedded server supports.
newer_sdk = v1.51.0
test-newer-sdk:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp go.mod go.sum "$$dir" && \
	export GOWORK=off && go get -modfile="$$dir/go.mod" go.temporal.io/sdk@$(newer_sdk) && \
	go test -modfile="$$dir/go.mod" ./...

# Benchmarks of the breaker relative to other libraries.
bench:
	go run ./tests/bench/ratios

# Fleets of up to a thousand workers in virtual time: one failing worker, outages and
# noise. This takes some minutes.
sim:
	go run ./tests/sim

# How fast a change reaches every watcher on the embedded server.
push:
	go run ./tests/push

# Records the histories that the tests of probeworkflow replay. Each version of the
# workflows has its own directory.
version = v1
histories:
	go test ./tests/e2e -count=1 -run TestRecordHistories -record $(CURDIR)/probeworkflow/testdata/histories/$(version)

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'gofmt: the files above need formatting'; exit 1; }
	go vet $(modules)
	go tool staticcheck $(modules)
	go tool workflowcheck -config workflowcheck.config.yaml ./fleet/... ./probeworkflow/... ./toolcall/... ./worker/agent/...
