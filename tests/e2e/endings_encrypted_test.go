package e2e_test

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"google.golang.org/protobuf/proto"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// encrypting is a codec whose payloads nobody else can read.
type encrypting struct{ aead cipher.AEAD }

const encrypted = "binary/encrypted"

func newEncrypting(t *testing.T) encrypting {
	t.Helper()
	key := make([]byte, 16)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	aead, err := cipher.NewGCMWithRandomNonce(block)
	require.NoError(t, err)
	return encrypting{aead}
}

func (e encrypting) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	var out []*commonpb.Payload
	for _, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		out = append(out, &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encrypted)},
			Data:     e.aead.Seal(nil, nil, plain, nil),
		})
	}
	return out, nil
}

func (e encrypting) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	var out []*commonpb.Payload
	for _, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encrypted {
			out = append(out, p)
			continue
		}
		plain, err := e.aead.Open(nil, nil, p.GetData(), nil)
		if err != nil {
			return nil, err
		}
		var decoded commonpb.Payload
		if err := proto.Unmarshal(plain, &decoded); err != nil {
			return nil, err
		}
		out = append(out, &decoded)
	}
	return out, nil
}

// Where every payload and every failure is encrypted, a workflow reads the same of
// a refusal, and the breaker's own workflows work as well.
func testEndingsEncrypted(t *testing.T) {
	codec := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), newEncrypting(t))
	b := newBench(t, client.Options{
		DataConverter: codec,
		FailureConverter: temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
			DataConverter: codec, EncodeCommonAttributes: true,
		}),
	})
	b.tool("plain", opened(2), obliging)
	b.guard("typed", opened(2))
	b.activities = append(b.activities, func(r worker.Registry) {
		r.RegisterActivityWithOptions(func(ctx context.Context, fail bool) (toolcall.Result[string], error) {
			value, err := b.counting("typed", obliging)(ctx, fail)
			return toolcall.Value(value), err
		}, activity.RegisterOptions{Name: "typed"})
	})
	probed := brief
	probed.ProbeSuccesses, probed.ProbeInterval = 2, 50*time.Millisecond
	b.tool("probed", probed, func(ctx context.Context, fail bool) (string, error) {
		if breaker.IsProbe(ctx) && fail {
			return "", errors.New("the probe's argument did not arrive")
		}
		return obliging(ctx, fail)
	}, func(d *interceptor.Dependency) { d.Probe = interceptor.Synthetic("probed", false) })
	b.open()

	for _, tool := range []string{"plain", "typed"} {
		t.Run(tool, func(t *testing.T) {
			b.trip(t, tool, 2)
			run := b.start(t, plan{Tool: tool})
			assertRefused(t, tool, await[answer](t, run))
			assert.Equal(t, 2, b.calls(tool))

			if tool == "plain" {
				failure := only(t, b.history(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_FAILED).GetActivityTaskFailedEventAttributes().GetFailure()
				assert.Equal(t, "Encoded failure", failure.GetMessage())
				assertEncrypted(t, failure.GetEncodedAttributes())
				assertEncrypted(t, failure.GetApplicationFailureInfo().GetDetails().GetPayloads()...)
			} else {
				completed := only(t, b.history(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED).GetActivityTaskCompletedEventAttributes()
				assertEncrypted(t, completed.GetResult().GetPayloads()...)
			}
		})
	}
	t.Run("probed", func(t *testing.T) {
		b.trip(t, "probed", 2)
		require.Eventually(t, func() bool { return b.breaker("probed").State == breaker.Closed }, soon, 20*time.Millisecond)
		assert.GreaterOrEqual(t, b.calls("probed"), 4, "two that failed, and two probes")
		assert.Contains(t, path(b.edges.of(breaker.Key{Dependency: "probed", Region: region})), breaker.HalfOpen)
	})
	// What a worker reads before its first task.
	t.Run("a worker that starts during an outage", func(t *testing.T) {
		require.Eventually(t, func() bool { return b.breaker("plain").Outage != "" }, soon, 20*time.Millisecond, "the board knows")
		first := b.plugin
		b.makePlugin()
		b.startWorker("late", worker.Options{}, b.activities...)
		assert.Equal(t, breaker.Open, b.breaker("plain").State)
		assertRefused(t, "plain", b.call(t, plan{Tool: "plain", Queue: "late"}))
		assert.Equal(t, 2, b.calls("plain"))
		assert.NotSame(t, first, b.plugin)
		assert.Empty(t, b.logs.with("Starting without knowing what is open"))
	})
}

func assertEncrypted(t *testing.T, payloads ...*commonpb.Payload) {
	t.Helper()
	assert.NotEmpty(t, payloads)
	for _, p := range payloads {
		assert.Equal(t, encrypted, string(p.GetMetadata()[converter.MetadataEncoding]))
	}
}
