package carrier

import "time"

// Query names one parcel.
type Query struct {
	TrackingID string `json:"tracking_id"`
	Region     string `json:"region"` // RegionEUWest, RegionUSEast; empty: Tools.Region
}

// The regions of the carrier's API.
const (
	RegionEUWest = "eu-west"
	RegionUSEast = "us-east"
)

// Status is where a parcel is now.
type Status struct {
	TrackingID   string    `json:"tracking_id"`
	State        string    `json:"state"` // such as in_transit, out_for_delivery, delivered
	ETA          time.Time `json:"eta,omitzero"`
	LastLocation string    `json:"last_location"`
	UpdatedAt    time.Time `json:"updated_at,omitzero"`
}

// Events lists the events of a parcel, oldest first.
type Events struct {
	TrackingID string  `json:"tracking_id"`
	Events     []Event `json:"events"`
}

// Event is one step of a parcel's delivery.
type Event struct {
	At       time.Time `json:"at"`
	State    string    `json:"state"`
	Location string    `json:"location"`
}

// Label is a return label, ready to print.
type Label struct {
	ID         string `json:"id"`
	TrackingID string `json:"tracking_id"`
	URL        string `json:"url"`
}
