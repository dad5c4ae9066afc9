.PHONY: demo test bench lint

modules = ./... ./tests/... ./tests/bench/... ./tests/model/... ./worker/...

# The story of an outage on an embedded Temporal server, in about a minute.
demo:
	go run ./worker demo

# Every test of every module under the race detector, and 100,000 random stories
# of the breaker against its reference model.
test:
	go test -race $(modules)
	go test ./tests/model -rapid.checks=100000

# The breaker beside its peers, as ratios.
bench:
	go run ./tests/bench/ratios

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'gofmt: the files above need formatting'; exit 1; }
	go vet $(modules)
	go tool staticcheck $(modules)
	go tool workflowcheck -config workflowcheck.config.yaml ./fleet/... ./probeworkflow/... ./toolcall/... ./worker/agent/...
