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

// encryptionCodec encrypts payloads with a random key.
type encryptionCodec struct{ aead cipher.AEAD }

const encryptedEncoding = "binary/encrypted"

func newEncryptionCodec(t *testing.T) encryptionCodec {
	t.Helper()
	key := make([]byte, 16)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	require.NoError(t, err)
	aead, err := cipher.NewGCMWithRandomNonce(block)
	require.NoError(t, err)
	return encryptionCodec{aead}
}

func (c encryptionCodec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	var out []*commonpb.Payload
	for _, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, err
		}
		out = append(out, &commonpb.Payload{
			Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encryptedEncoding)},
			Data:     c.aead.Seal(nil, nil, plain, nil),
		})
	}
	return out, nil
}

func (c encryptionCodec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	var out []*commonpb.Payload
	for _, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != encryptedEncoding {
			out = append(out, p)
			continue
		}
		plain, err := c.aead.Open(nil, nil, p.GetData(), nil)
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

// With encrypted payloads and failures, a workflow reads the same refusal, and the
// breaker's own workflows work.
func testEncryption(t *testing.T) {
	codec := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), newEncryptionCodec(t))
	h := newHarness(t, client.Options{
		DataConverter: codec,
		FailureConverter: temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
			DataConverter: codec, EncodeCommonAttributes: true,
		}),
	})
	h.addTool("plain", tripsAfter(2), failOnRequest)
	h.addDependency("typed", tripsAfter(2))
	h.activities = append(h.activities, func(r worker.Registry) {
		r.RegisterActivityWithOptions(func(ctx context.Context, fail bool) (toolcall.Result[string], error) {
			value, err := h.counted("typed", failOnRequest)(ctx, fail)
			return toolcall.Value(value), err
		}, activity.RegisterOptions{Name: "typed"})
	})
	probed := shortCooldown
	probed.ProbeSuccesses, probed.ProbeInterval = 2, 50*time.Millisecond
	h.addTool("probed", probed, func(ctx context.Context, fail bool) (string, error) {
		if breaker.IsProbe(ctx) && fail {
			return "", errors.New("the probe's argument did not arrive")
		}
		return failOnRequest(ctx, fail)
	}, func(d *interceptor.Dependency) { d.Probe = interceptor.Synthetic("probed", false) })
	h.start()

	for _, tool := range []string{"plain", "typed"} {
		t.Run(tool, func(t *testing.T) {
			h.trip(t, tool, 2)
			run := h.startCall(t, callSpec{Tool: tool})
			assertRefused(t, tool, awaitResult[callResult](t, run))
			assert.Equal(t, 2, h.executions(tool))

			if tool == "plain" {
				failure := onlyEvent(t, h.history(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_FAILED).GetActivityTaskFailedEventAttributes().GetFailure()
				assert.Equal(t, "Encoded failure", failure.GetMessage())
				assertEncrypted(t, failure.GetEncodedAttributes())
				assertEncrypted(t, failure.GetApplicationFailureInfo().GetDetails().GetPayloads()...)
			} else {
				completed := onlyEvent(t, h.history(t, run), enums.EVENT_TYPE_ACTIVITY_TASK_COMPLETED).GetActivityTaskCompletedEventAttributes()
				assertEncrypted(t, completed.GetResult().GetPayloads()...)
			}
		})
	}
	t.Run("probed", func(t *testing.T) {
		h.trip(t, "probed", 2)
		require.Eventually(t, func() bool { return h.snapshot("probed").State == breaker.Closed }, shortTimeout, 20*time.Millisecond)
		assert.GreaterOrEqual(t, h.executions("probed"), 4, "two failed calls and two probes")
		assert.Contains(t, states(h.transitions.of(breaker.Key{Dependency: "probed", Region: region})), breaker.HalfOpen)
	})
	// A starting worker reads the board's memo before its first task.
	t.Run("worker started during an outage", func(t *testing.T) {
		require.Eventually(t, func() bool { return h.snapshot("plain").Outage != "" }, shortTimeout, 20*time.Millisecond, "the breaker has the verdict of the outage workflow")
		first := h.plugin
		h.createPlugin()
		h.startWorker("second-worker", worker.Options{}, h.activities...)
		assert.Equal(t, breaker.Open, h.snapshot("plain").State)
		assertRefused(t, "plain", h.call(t, callSpec{Tool: "plain", Queue: "second-worker"}))
		assert.Equal(t, 2, h.executions("plain"))
		assert.NotSame(t, first, h.plugin)
		assert.Empty(t, h.logs.with("could not be read at start"))
	})
}

func assertEncrypted(t *testing.T, payloads ...*commonpb.Payload) {
	t.Helper()
	assert.NotEmpty(t, payloads)
	for _, p := range payloads {
		assert.Equal(t, encryptedEncoding, string(p.GetMetadata()[converter.MetadataEncoding]))
	}
}
