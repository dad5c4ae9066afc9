package probeworkflow_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// Operators and dashboards find workflows by these IDs.
func TestIDs_AreAsDocumented(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "outage/carrier-api/eu-west", probeworkflow.OutageID(key))
	assert.Equal(t, "probe/carrier-api/eu-west", probeworkflow.ProbeID(key))
	assert.NotEqual(t, probeworkflow.OutageID(key), probeworkflow.OutageID(breaker.Key{Dependency: "carrier-api", Region: "us-east"}))
}

func TestEncodeArgs_AcceptsNone(t *testing.T) {
	t.Parallel()
	args, err := probeworkflow.EncodeArgs(converter.GetDefaultDataConverter(), nil)
	require.NoError(t, err)
	assert.Empty(t, args)
}

func TestEncodeArgs_ReturnsEncodingErrors(t *testing.T) {
	t.Parallel()
	_, err := probeworkflow.EncodeArgs(converter.GetDefaultDataConverter(), []any{make(chan int)})
	assert.Error(t, err)
}

// Arguments encoded by any data converter reach the tool unchanged.
func TestEncodeArgs_SurviveTheSettingsJSON(t *testing.T) {
	t.Parallel()
	for name, dc := range map[string]converter.DataConverter{
		"plain": converter.GetDefaultDataConverter(),
		"codec": converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true})),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args, err := probeworkflow.EncodeArgs(dc, []any{query{ID: "PROBE-1"}, []byte{0xff, 0x00}, nil, 17})
			require.NoError(t, err)
			s := settings()
			s.Call.Args = args
			data, err := json.Marshal(s)
			require.NoError(t, err)
			var read probeworkflow.Settings
			require.NoError(t, json.Unmarshal(data, &read))
			assert.Equal(t, s, read, "no field is lost")

			var payloads commonpb.Payloads
			for _, p := range read.Call.Args {
				payloads.Payloads = append(payloads.Payloads, &commonpb.Payload{Metadata: p.Metadata, Data: p.Data})
			}
			var q query
			var bytes []byte
			var nothing *query
			var number int
			require.NoError(t, dc.FromPayloads(&payloads, &q, &bytes, &nothing, &number))
			assert.Equal(t, query{ID: "PROBE-1"}, q)
			assert.Equal(t, []byte{0xff, 0x00}, bytes)
			assert.Nil(t, nothing)
			assert.Equal(t, 17, number)
		})
	}
}

// During a rollout, an older worker may continue what a newer one has started.
func TestSettings_IgnoreUnknownFields(t *testing.T) {
	t.Parallel()
	written, err := json.Marshal(settings())
	require.NoError(t, err)
	newer := strings.Replace(string(written), `"window"`, `"added_later":true,"window"`, 1)
	require.NotEqual(t, string(written), newer)
	var read probeworkflow.Settings
	require.NoError(t, json.Unmarshal([]byte(newer), &read))
	assert.Equal(t, settings(), read)
}
