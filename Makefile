.PHONY: demo test bench lint

# The story of an outage on an embedded Temporal server, in about a minute.
demo:
	go run ./worker demo

# Every test of every module, under the race detector.
test:
	go test -race ./... ./tests/... ./worker/...

bench:
	go test -run '^$$' -bench . -benchmem ./breaker/...

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'gofmt: the files above need formatting'; exit 1; }
	go vet ./... ./tests/... ./worker/...
	go tool staticcheck ./... ./tests/... ./worker/...
	go tool workflowcheck -config workflowcheck.config.yaml ./fleet/... ./probeworkflow/... ./toolcall/... ./worker/agent/...
