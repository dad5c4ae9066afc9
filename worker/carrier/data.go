package carrier

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"time"
)

// All data is derived from the identifier, so the same parcel always has the same
// data and nothing is stored. Identifiers that start with UNKNOWN are not found.

var (
	stages = []struct{ state, location string }{
		{"accepted", "drop-off point"},
		{"in_transit", "sorting centre"},
		{"in_transit", "destination depot"},
		{"out_for_delivery", "delivery van"},
		{"delivered", "front door"},
	}
	customers = []string{"Ada Lovelace", "Grace Hopper", "Alan Turing", "Katherine Johnson", "Edsger Dijkstra"}
	items     = []string{"desk lamp", "running shoes", "coffee grinder", "rain jacket", "headphones"}
)

// digest returns a hash of an identifier.
func digest(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id))
	return h.Sum64()
}

func unknown(id string) bool { return strings.HasPrefix(strings.ToUpper(id), "UNKNOWN") }

// pick returns the value that a digest selects.
func pick[T any](values []T, d uint64) T { return values[d%uint64(len(values))] }

type parcelEvent struct {
	At       time.Time `json:"at"`
	State    string    `json:"state"`
	Location string    `json:"location"`
}

// history returns a parcel's events so far, oldest first, six hours apart.
func history(id string, now time.Time) []parcelEvent {
	n := 1 + int(digest(id)%uint64(len(stages)))
	latest := now.UTC().Truncate(time.Hour)
	events := make([]parcelEvent, n)
	for i := range events {
		events[i] = parcelEvent{
			At:       latest.Add(-6 * time.Hour * time.Duration(n-1-i)),
			State:    stages[i].state,
			Location: stages[i].location,
		}
	}
	return events
}

func parcelStatus(r *http.Request, _ []byte) (int, any) {
	id := r.PathValue("trackingID")
	if unknown(id) {
		return http.StatusNotFound, failure{"no parcel has this tracking ID"}
	}
	events := history(id, time.Now())
	last := events[len(events)-1]
	return http.StatusOK, struct {
		TrackingID   string    `json:"tracking_id"`
		State        string    `json:"state"`
		ETA          time.Time `json:"eta"`
		LastLocation string    `json:"last_location"`
		UpdatedAt    time.Time `json:"updated_at"`
	}{
		TrackingID:   id,
		State:        last.State,
		ETA:          last.At.Add(6 * time.Hour * time.Duration(len(stages)-len(events))),
		LastLocation: last.Location,
		UpdatedAt:    last.At,
	}
}

func parcelEvents(r *http.Request, _ []byte) (int, any) {
	id := r.PathValue("trackingID")
	if unknown(id) {
		return http.StatusNotFound, failure{"no parcel has this tracking ID"}
	}
	return http.StatusOK, struct {
		TrackingID string        `json:"tracking_id"`
		Events     []parcelEvent `json:"events"`
	}{id, history(id, time.Now())}
}

// returnLabel returns the label of a parcel, the same for every call.
func returnLabel(_ *http.Request, body []byte) (int, any) {
	var request struct {
		TrackingID string `json:"tracking_id"`
	}
	if json.Unmarshal(body, &request) != nil || request.TrackingID == "" {
		return http.StatusBadRequest, failure{`the body must be like {"tracking_id": "PKG-1001"}`}
	}
	if unknown(request.TrackingID) {
		return http.StatusNotFound, failure{"no parcel has this tracking ID"}
	}
	id := fmt.Sprintf("LBL-%08X", uint32(digest(request.TrackingID)))
	return http.StatusCreated, struct {
		ID         string `json:"id"`
		TrackingID string `json:"tracking_id"`
		URL        string `json:"url"`
	}{id, request.TrackingID, "https://carrier.example/labels/" + id + ".pdf"}
}

// order returns an order. The ID's prefix EU- or US- selects the region of delivery.
func order(r *http.Request, _ []byte) (int, any) {
	id := r.PathValue("id")
	if unknown(id) {
		return http.StatusNotFound, failure{"no order has this ID"}
	}
	d := digest(id)
	delivery := pick(regionNames, d>>16)
	switch {
	case strings.HasPrefix(id, "EU-"):
		delivery = EUWest
	case strings.HasPrefix(id, "US-"):
		delivery = USEast
	}
	return http.StatusOK, struct {
		ID         string `json:"id"`
		Customer   string `json:"customer"`
		TrackingID string `json:"tracking_id"`
		Region     string `json:"region"`
		Item       string `json:"item"`
	}{
		ID:         id,
		Customer:   pick(customers, d),
		TrackingID: fmt.Sprintf("PKG-%06d", d>>32%1_000_000),
		Region:     delivery,
		Item:       pick(items, d>>8),
	}
}
