package interceptor_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

// valid is a configuration without mistakes.
func valid() interceptor.Config {
	return interceptor.Config{
		Region: "eu-west",
		Dependencies: []interceptor.Dependency{
			{Name: "carrier-api", Tools: interceptor.Tools("get_delivery_status", "create_label"), Probe: interceptor.Synthetic("get_delivery_status", "PROBE-1")},
			{Name: "orders-db", Tools: interceptor.Tools("lookup_order"), Probe: interceptor.NoProbe()},
		},
	}
}

func TestConfig_WithoutMistakes(t *testing.T) {
	t.Parallel()
	byInput := interceptor.RegionOf(func(q query) string { return q.Region })
	for name, change := range map[string]func(*interceptor.Config){
		"as it is": func(*interceptor.Config) {},
		"no region, but every dependency has a function": func(c *interceptor.Config) {
			c.Region = ""
			c.Dependencies[0].Region, c.Dependencies[1].Region = byInput, byInput
		},
		"probed by another dependency's tool":   func(c *interceptor.Config) { c.Dependencies[1].Probe = interceptor.Synthetic("create_label") },
		"probed by an activity that is no tool": func(c *interceptor.Config) { c.Dependencies[1].Probe = interceptor.Synthetic("ping_orders") },
		"probed with arguments per region": func(c *interceptor.Config) {
			c.Dependencies[1].Probe = interceptor.SyntheticIn("ping_orders", inRegion)
		},
		"several without a probe": func(c *interceptor.Config) { c.Dependencies[0].Probe = interceptor.NoProbe() },
		"the longest names": func(c *interceptor.Config) {
			c.Dependencies[0].Name, c.Dependencies[0].Tools = long(100), interceptor.Tools("get_delivery_status", long(100))
		},
		"a configured breaker": func(c *interceptor.Config) {
			c.Dependencies[0].Breaker = breaker.Config{Latency: time.Second, Ramp: []int{50, 100}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := valid()
			change(&c)
			p, err := interceptor.NewPlugin(nil, c)
			require.NoError(t, err)
			assert.Equal(t, "toolbreaker", p.Name())
		})
	}
}

func inRegion(region string) []any { return []any{query{ID: "PROBE-" + region}} }

func long(n int) string { return strings.Repeat("n", n) }

// mistake is a configuration with one mistake, and the line that names it.
type mistake struct {
	change func(*interceptor.Config)
	line   string
}

var mistakes = map[string]mistake{
	"an invalid WhenOpen": {
		func(c *interceptor.Config) { c.Dependencies[1].WhenOpen = 2 },
		"Dependencies[1] (orders-db).WhenOpen: 2 is not one of Refuse, Wait",
	},
	"no dependency": {
		func(c *interceptor.Config) { c.Dependencies = nil },
		"Dependencies: at least one is needed",
	},
	"no region": {
		func(c *interceptor.Config) { c.Region = "" },
		"Region: must not be empty (or set Region on each dependency)",
	},
	"no region, and one dependency needs it": {
		func(c *interceptor.Config) {
			c.Region, c.Dependencies[0].Region = "", func([]any) string { return "eu-west" }
		},
		"Region: must not be empty (or set Region on each dependency)",
	},
	"an invalid region": {
		func(c *interceptor.Config) { c.Region = "eu west" },
		`Region: "eu west" must be made of letters, digits and the characters . _ - : @ (or set Region on each dependency)`,
	},
	"an invalid region that is not used": {
		func(c *interceptor.Config) {
			c.Region = "eu/west"
			for i := range c.Dependencies {
				c.Dependencies[i].Region = func([]any) string { return "eu-west" }
			}
		},
		`Region: "eu/west" must be made of letters, digits and the characters . _ - : @ (or set Region on each dependency)`,
	},
	"no name": {
		func(c *interceptor.Config) { c.Dependencies[1].Name = "" },
		"Dependencies[1].Name: must not be empty",
	},
	"an invalid name": {
		func(c *interceptor.Config) { c.Dependencies[0].Name = "carrier/api" },
		`Dependencies[0] (carrier/api).Name: "carrier/api" must be made of letters, digits and the characters . _ - : @`,
	},
	"a name too long": {
		func(c *interceptor.Config) { c.Dependencies[0].Name = long(101) },
		"Dependencies[0] (" + long(101) + ").Name: is 101 bytes long; at most 100 are allowed",
	},
	"a name twice": {
		func(c *interceptor.Config) { c.Dependencies[1].Name = "carrier-api" },
		"Dependencies[1] (carrier-api).Name: another dependency has the same name",
	},
	"no tools": {
		func(c *interceptor.Config) { c.Dependencies[1].Tools = nil },
		"Dependencies[1] (orders-db).Tools: at least one activity type is needed",
	},
	"an empty tool": {
		func(c *interceptor.Config) { c.Dependencies[0].Tools[1] = "" },
		"Dependencies[0] (carrier-api).Tools[1]: must not be empty",
	},
	"a tool too long": {
		func(c *interceptor.Config) { c.Dependencies[0].Tools[1] = long(101) },
		"Dependencies[0] (carrier-api).Tools[1]: is 101 bytes long; at most 100 are allowed",
	},
	"a tool twice": {
		func(c *interceptor.Config) { c.Dependencies[0].Tools[1] = "get_delivery_status" },
		"Dependencies[0] (carrier-api).Tools[1]: get_delivery_status already belongs to carrier-api; a tool has one dependency",
	},
	"a tool of two dependencies": {
		func(c *interceptor.Config) { c.Dependencies[1].Tools[0] = "create_label" },
		"Dependencies[1] (orders-db).Tools[0]: create_label already belongs to carrier-api; a tool has one dependency",
	},
	"no probe": {
		func(c *interceptor.Config) { c.Dependencies[0].Probe = interceptor.Probe{} },
		"Dependencies[0] (carrier-api).Probe: is missing; use Synthetic with a real tool and harmless arguments, or NoProbe()",
	},
	"a probe whose arguments do not encode": {
		func(c *interceptor.Config) {
			c.Dependencies[0].Probe = interceptor.Synthetic("get_delivery_status", make(chan int))
		},
		"Dependencies[0] (carrier-api).Probe: its arguments cannot be encoded: values[0]: unable to encode: json: unsupported type: chan int",
	},
	"a probe without an activity": {
		func(c *interceptor.Config) { c.Dependencies[0].Probe = interceptor.Synthetic("") },
		"Dependencies[0] (carrier-api).Probe: is missing; use Synthetic with a real tool and harmless arguments, or NoProbe()",
	},
	"a probe without a function": {
		func(c *interceptor.Config) {
			c.Dependencies[0].Probe = interceptor.SyntheticIn("get_delivery_status", nil)
		},
		"Dependencies[0] (carrier-api).Probe: SyntheticIn needs a function that returns the arguments",
	},
	"a probe of two dependencies": {
		func(c *interceptor.Config) { c.Dependencies[1].Probe = interceptor.Synthetic("get_delivery_status") },
		"Dependencies[1] (orders-db).Probe: get_delivery_status is already the probe of carrier-api; an activity can be the probe of one dependency only",
	},
	"an invalid breaker configuration": {
		func(c *interceptor.Config) { c.Dependencies[0].Breaker.FailureRate = 1.5 },
		"Dependencies[0] (carrier-api).Breaker: FailureRate: 1.5 is out of range; a share between 0 and 1, exclusive, such as 0.5",
	},
}

func TestConfig_NamesEachMistakeWithItsField(t *testing.T) {
	t.Parallel()
	for name, m := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := valid()
			m.change(&c)
			p, err := interceptor.NewPlugin(nil, c)
			assert.Nil(t, p)
			assert.EqualError(t, err, "toolbreaker configuration:\n"+m.line, "this mistake only")
		})
	}
}

// All mistakes can be corrected at once.
func TestConfig_NamesEveryMistakeAtOnce(t *testing.T) {
	t.Parallel()
	_, err := interceptor.NewPlugin(nil, interceptor.Config{
		Region: "eu west",
		Dependencies: []interceptor.Dependency{
			{Name: "carrier/api", Tools: interceptor.Tools("get_delivery_status", ""), Breaker: breaker.Config{FailureRate: 2, MinSamples: -1, Latency: time.Nanosecond}},
			{Tools: interceptor.Tools("get_delivery_status"), Probe: interceptor.SyntheticIn("ping", nil)},
			{Name: "orders-db", Probe: interceptor.NoProbe()},
			{Name: "orders-db", Tools: interceptor.Tools(long(101)), Probe: interceptor.NoProbe()},
		},
	})
	require.Error(t, err)
	lines := strings.Split(err.Error(), "\n")
	assert.Equal(t, "toolbreaker configuration:", lines[0])
	var fields []string
	for _, line := range lines[1:] {
		field, _, found := strings.Cut(line, ": ")
		require.True(t, found, line)
		fields = append(fields, field)
	}
	assert.Equal(t, []string{
		"Region",
		"Dependencies[0] (carrier/api).Name",
		"Dependencies[0] (carrier/api).Tools[1]",
		"Dependencies[0] (carrier/api).Probe",
		"Dependencies[0] (carrier/api).Breaker", // Latency,
		"Dependencies[0] (carrier/api).Breaker", // FailureRate,
		"Dependencies[0] (carrier/api).Breaker", // MinSamples.
		"Dependencies[1].Name",
		"Dependencies[1].Tools[0]",
		"Dependencies[1].Probe",
		"Dependencies[2] (orders-db).Tools",
		"Dependencies[3] (orders-db).Name",
		"Dependencies[3] (orders-db).Tools[0]",
	}, fields)
}

func TestRegionOf_UsesTheFirstArgumentOfItsType(t *testing.T) {
	t.Parallel()
	region := interceptor.RegionOf(func(q query) string { return q.Region })
	assert.Equal(t, "us-east", region([]any{query{Region: "us-east"}}))
	assert.Equal(t, "us-east", region([]any{"other", 17, query{Region: "us-east"}, query{Region: "eu-west"}}))
	assert.Empty(t, region([]any{query{}}), "an empty region")
	assert.Empty(t, region(nil))
	assert.Empty(t, region([]any{"us-east", &query{Region: "us-east"}, nil}), "no argument of that type")

	pointed := interceptor.RegionOf(func(q *query) string { return q.Region })
	assert.Equal(t, "us-east", pointed([]any{query{Region: "eu-west"}, &query{Region: "us-east"}}))
	named := interceptor.RegionOf(func(region string) string { return region })
	assert.Equal(t, "us-east", named([]any{query{Region: "eu-west"}, "us-east"}))
}

func TestRegionOf_DecodesJSONArguments(t *testing.T) {
	t.Parallel()
	region := interceptor.RegionOf(func(q query) string { return q.Region })
	raw := json.RawMessage(`{"region": "us-east", "more": 1}`)
	assert.Equal(t, "us-east", region([]any{raw}))
	assert.Equal(t, "us-east", region([]any{json.RawMessage(`[1]`), raw}), "other JSON is skipped")
	assert.Equal(t, "eu-west", region([]any{raw, query{Region: "eu-west"}}), "the type itself comes first")

	pointed := interceptor.RegionOf(func(q *query) string { return q.Region })
	assert.Equal(t, "us-east", pointed([]any{raw}))
	for _, text := range []string{"", "{", "null", " null ", `"us-east"`, "[]", "{}", `{"region": 7}`} {
		assert.Empty(t, region([]any{json.RawMessage(text)}), text)
		assert.Empty(t, pointed([]any{json.RawMessage(text)}), text)
	}
}
