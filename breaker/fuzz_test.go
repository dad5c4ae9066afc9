package breaker

import (
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Any text is either refused as a configuration or survives being written and read
// again. A valid configuration never makes a breaker panic.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(fullText))
	f.Add([]byte(`{"window": 60}`))
	f.Add([]byte(`{"tool_latency": {"a": "1s", "b": null}, "ramp": [1, 100]}`))
	f.Add([]byte(`{"window": "2562047h47m16.854775807s", "quantile": 0.9999999}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var c Config
		if json.Unmarshal(text, &c) != nil {
			require.Equal(t, Config{}, c, "a refused text changes nothing")
			return
		}
		again, err := json.Marshal(c)
		require.NoError(t, err)
		var read Config
		require.NoError(t, json.Unmarshal(again, &read))
		require.Equal(t, c.WithDefaults(), read.WithDefaults())
		if c.Validate() != nil {
			return
		}
		r := newRig(t, c)
		for range 3 {
			p, refusal := r.Allow(Call{})
			r.clock.advance(min(c.WithDefaults().Latency+1, time.Hour))
			if refusal == nil {
				p.Done(Failure)
			}
			r.Tick()
		}
		r.Snapshot()
	})
}

// A window equals a list of its samples for any clock: one that stops, jumps, or
// differs a little between two goroutines.
func FuzzWindow(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("0123456789abcdef0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkWindow(t, func(limit int64) int64 {
			if len(data) == 0 {
				return 0
			}
			var word [8]byte
			n := copy(word[:7], data)
			data = data[n:]
			return int64(binary.LittleEndian.Uint64(word[:])) % limit
		})
	})
}

// A breaker stays consistent with any clock: the calls in flight are those not yet
// done, and a quiet breaker forgets everything.
func FuzzClock(f *testing.F) {
	f.Add([]byte("allow-move-done"))
	f.Add([]byte{0, 255, 1, 254, 2, 253, 3, 252, 200, 100, 50, 25, 12, 6, 3})
	f.Fuzz(func(t *testing.T, moves []byte) {
		r := newRig(t, Config{Mode: Enforce, FailureRate: 0.999, MinSlow: 1 << 30})
		var held []*Permit
		for _, move := range moves[:min(len(moves), 300)] {
			switch step := time.Duration(move >> 2); move & 3 {
			case 0:
				held = append(held, r.allow())
			case 1:
				if len(held) > 0 {
					held[0].Done(Success)
					held = held[1:]
				}
			case 2:
				r.clock.advance(step * step * step * 40 * time.Millisecond)
			case 3:
				r.clock.jump((step - 32) * time.Hour)
				r.Tick()
			}
			require.Equal(t, len(held), r.Snapshot().InFlight)
		}
		for _, p := range held {
			p.Done(Success)
		}
		r.clock.advance(2 * time.Minute)
		require.Zero(t, r.Evidence())
		r.registry.Tick()
		require.Empty(t, r.registry.awake)
	})
}
