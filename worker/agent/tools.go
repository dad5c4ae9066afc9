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

// HomeRegion is the region of calls that name none.
const HomeRegion = carriertools.RegionEUWest

// Region returns the carrier's region of a call. The workflow and the worker both
// use it, because both must see the same outage.
var Region = interceptor.RegionOf(func(q carriertools.Query) string { return cmp.Or(q.Region, HomeRegion) })

// toolSpec describes a tool to a model.
type toolSpec struct {
	description string
	// parameters is a JSON schema.
	parameters map[string]any
	// accepts tells whether the activity can decode these arguments. If it could
	// not, the worker's decoder would fail, and Temporal would retry.
	accepts func(args json.RawMessage) bool
}

var parcel = object(map[string]any{
	"tracking_id": text("The order's tracking_id."),
	"region":      text("The order's region.", carriertools.RegionEUWest, carriertools.RegionUSEast),
}, "tracking_id", "region")

var toolSpecs = map[string]toolSpec{
	orders.LookupOrder: {
		"Get an order: the item, and the tracking_id and region of its parcel.",
		object(map[string]any{"order_id": text("The order's ID.")}, "order_id"),
		decodesInto[orders.Query],
	},
	carriertools.GetDeliveryStatus: {"Where a parcel is now, and when it will arrive.", parcel, decodesInto[carriertools.Query]},
	carriertools.GetTrackingEvents: {"All events of a parcel so far.", parcel, decodesInto[carriertools.Query]},
	carriertools.CreateReturnLabel: {
		"Create a label with which the customer can send the parcel back. Call it only if the customer wants one.",
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
	// null and arrays are refused.
	var members map[string]json.RawMessage
	var t T
	return json.Unmarshal(args, &members) == nil && members != nil && json.Unmarshal(args, &t) == nil
}
