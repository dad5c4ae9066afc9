package probeworkflow

import (
	"encoding/json"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/toolbreaker/toolbreaker/breaker"
)

const (
	// OutageWorkflow and ProbeWorkflow are the workflow types.
	OutageWorkflow = "BreakerOutage"
	ProbeWorkflow  = "BreakerProbe"
	// ReportSignal carries one [fleet.Report] to an outage.
	ReportSignal = "report"
	// StateQuery returns the outage's [Status].
	StateQuery = "state"

	// SearchDependency, SearchRegion and SearchState are the search attributes of
	// outages. Their type is Keyword.
	SearchDependency = "BreakerDependency"
	SearchRegion     = "BreakerRegion"
	SearchState      = "BreakerState"
)

// OutageID returns the ID of the outage workflow of key. Temporal guarantees that
// only one runs at a time.
func OutageID(key breaker.Key) string { return "outage/" + key.String() }

// ProbeID returns the ID of the probe workflow of key.
func ProbeID(key breaker.Key) string { return "probe/" + key.String() }

// Settings is the configuration of an outage workflow. The workflow gets it as
// input, so that a replay does not depend on the current configuration.
type Settings struct {
	Key breaker.Key `json:"key"`
	// Breaker has its defaults set.
	Breaker breaker.Config `json:"breaker"`
	// Call is the synthetic call; nil if the dependency has none.
	Call *Call `json:"probe,omitempty"`
}

// UnmarshalJSON accepts what any version has written, because old and new workers
// run at the same time.
func (s *Settings) UnmarshalJSON(data []byte) error {
	type plain Settings
	read := struct {
		*plain
		Breaker json.RawMessage `json:"breaker"`
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	if read.Breaker == nil {
		return nil
	}
	return s.Breaker.UnmarshalStored(read.Breaker)
}

// Call is a synthetic call: an activity, its arguments, and where it runs.
type Call struct {
	Activity string `json:"activity"`
	// Args are encoded like the tool's own arguments.
	Args []Payload `json:"args,omitempty"`
	// TaskQueue is the tool's own task queue.
	TaskQueue string `json:"task_queue"`
	// QueueTimeout bounds the wait for a worker to take the call. A call that no
	// worker takes is no evidence about the dependency.
	QueueTimeout time.Duration `json:"queue_timeout_ns"`
}

// Payload carries an encoded argument inside another value's JSON.
type Payload struct {
	Metadata map[string][]byte `json:"metadata"`
	Data     []byte            `json:"data"`
}

// EncodeArgs encodes the arguments of a synthetic call.
func EncodeArgs(dc converter.DataConverter, args []any) ([]Payload, error) {
	if len(args) == 0 {
		return nil, nil
	}
	encoded, err := dc.ToPayloads(args...)
	if err != nil {
		return nil, err
	}
	var payloads []Payload
	for _, p := range encoded.GetPayloads() {
		payloads = append(payloads, Payload{Metadata: p.GetMetadata(), Data: p.GetData()})
	}
	return payloads, nil
}

func rawArgs(payloads []Payload) []any {
	args := make([]any, 0, len(payloads))
	for _, p := range payloads {
		args = append(args, converter.NewRawValue(&commonpb.Payload{Metadata: p.Metadata, Data: p.Data}))
	}
	return args
}
