.PHONY: demo test test-newer-sdk bench sim push histories lint

modules = ./... ./tests/... ./tests/bench/... ./tests/model/... ./tests/sim/... ./worker/...

# The story of an outage on an embedded Temporal server, in about a minute.
demo:
	go run ./worker demo

# Every test of every module under the race detector (but for simulated fleets, each
# of one goroutine, and what starts processes), and 100,000 random stories of the
# breaker against its reference model. The end-to-end tests, and those of
# real processes, have the machine to themselves, one after the other: a carrier
# that waits for a processor is slow, and a slow one does not recover.
test:
	go test -race $$(go list $(modules) | grep -v -e /tests/e2e -e /tests/processes -e /tests/sim)
	go test ./tests/sim/...
	go test -race -parallel 1 -timeout 40m ./tests/e2e/...
	go test -timeout 20m ./tests/processes/...
	go test ./tests/model -rapid.checks=100000

# The library with a newer SDK than the embedded server compiles with.
newer_sdk = v1.51.0
test-newer-sdk:
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && cp go.mod go.sum "$$dir" && \
	export GOWORK=off && go get -modfile="$$dir/go.mod" go.temporal.io/sdk@$(newer_sdk) && \
	go test -modfile="$$dir/go.mod" ./...

# The breaker beside its peers, as ratios.
bench:
	go run ./tests/bench/ratios

# Fleets of up to a thousand workers under virtual time: what one bad worker, an
# outage and noise come to. Some minutes.
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
