.PHONY: demo test test-all test-newer-sdk bench sim push histories lint

modules = ./... ./tests/... ./tests/bench/... ./tests/model/... ./tests/sim/... ./worker/...

# An outage on an embedded Temporal server, in about a minute.
demo:
	go run ./worker demo

# Every package under the race detector, end-to-end tests and fleets of processes
# included, and 100,000 random sequences of the breaker against its reference model.
test:
	tests/run.sh quick

# What make test leaves out besides: each proof with more rounds, and required times.
test-all: test
	tests/run.sh full

# The library with a newer SDK than the embedded server compiles with.
newer_sdk = v1.51.0
test-newer-sdk:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp go.mod go.sum "$$dir" && \
	export GOWORK=off && go get -modfile="$$dir/go.mod" go.temporal.io/sdk@$(newer_sdk) && \
	go test -modfile="$$dir/go.mod" ./...

# The breaker beside its peers, as ratios.
bench:
	go run ./tests/bench/ratios

# Fleets of up to a thousand workers under virtual time: one bad worker, outages and
# noise. Some minutes.
sim:
	go run ./tests/sim

# How fast a change reaches every watcher, on the embedded server.
push:
	go run ./tests/push

# The histories that probeworkflow's tests replay, of the workflows as they are now.
# A new version of the workflows has a directory of its own.
version = v1
histories:
	go test ./tests/e2e -count=1 -run TestRecordHistories -record $(CURDIR)/probeworkflow/testdata/histories/$(version)

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'gofmt: the files above need formatting'; exit 1; }
	go vet $(modules)
	go tool staticcheck $(modules)
	go tool workflowcheck -config workflowcheck.config.yaml ./fleet/... ./probeworkflow/... ./toolcall/... ./worker/agent/...
