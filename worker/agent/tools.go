package agent

import (
	"cmp"
	"encoding/json"

	carriertools "github.com/toolbreaker/toolbreaker/activities/carrier"
	"github.com/toolbreaker/toolbreaker/activities/orders"
	"github.com/toolbreaker/toolbreaker/interceptor"
)

// Tools are the activity types that a model may call.
func Tools() []string {
	return []string{
		orders.LookupOrder,
		carriertools.GetDeliveryStatus, carriertools.GetTrackingEvents, carriertools.CreateReturnLabel,
	}
}

// HomeRegion is where calls go that name no region.
const HomeRegion = carriertools.RegionEUWest

// Region takes the carrier's region from a call, in the workflow as on the
// worker: both must see the same outage.
var Region = interceptor.RegionOf(func(q carriertools.Query) string { return cmp.Or(q.Region, HomeRegion) })

// manual is what a model is told of a tool.
type manual struct {
	description string
	// parameters is a JSON schema.
	parameters map[string]any
	// takes tells whether the activity can read these arguments. What it cannot
	// read would fail in the worker's decoder, which Temporal retries.
	takes func(args json.RawMessage) bool
}

var parcel = object(map[string]any{
	"tracking_id": text("The order's tracking_id."),
	"region":      text("The order's region.", carriertools.RegionEUWest, carriertools.RegionUSEast),
}, "tracking_id", "region")

var manuals = map[string]manual{
	orders.LookupOrder: {
		"Look an order up: what was bought, and the tracking_id and region of its parcel.",
		object(map[string]any{"order_id": text("The order's ID.")}, "order_id"),
		decodesInto[orders.Query],
	},
	carriertools.GetDeliveryStatus: {"Where a parcel is now, and when it will arrive.", parcel, decodesInto[carriertools.Query]},
	carriertools.GetTrackingEvents: {"A parcel's journey so far.", parcel, decodesInto[carriertools.Query]},
	carriertools.CreateReturnLabel: {
		"Make a label with which the customer can send the parcel back. Only when one is wanted.",
		parcel, decodesInto[carriertools.Query],
	},
}

func object(properties map[string]any, required ...string) map[string]any {
	return map[string]any{
		"type": "object", "properties": properties, "required": required, "additionalProperties": false,
	}
}

func text(description string, values ...string) map[string]any {
	schema := map[string]any{"type": "string", "description": description}
	if len(values) > 0 {
		schema["enum"] = values
	}
	return schema
}

func decodesInto[T any](args json.RawMessage) bool {
	// Neither null nor an array is an object.
	var members map[string]json.RawMessage
	var t T
	return json.Unmarshal(args, &members) == nil && members != nil && json.Unmarshal(args, &t) == nil
}
