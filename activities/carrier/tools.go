package carrier

import (
	"context"
	"net/http"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/activities/internal/httptool"
	"github.com/toolbreaker/toolbreaker/toolerror"
)

// Dependency is the name of the tools' dependency. They share one breaker per region.
const Dependency = "carrier-api"

// The activity types of the tools.
const (
	GetDeliveryStatus = "get_delivery_status"
	GetTrackingEvents = "get_tracking_events"
	CreateReturnLabel = "create_return_label"
)

// Tools are the carrier's API as Temporal activities. The methods may be called
// concurrently. The fields must not change after Register.
//
// A query with malformed identifiers ends in a non-retryable error of type InvalidQuery,
// without a call. [HTTPError] describes the other errors.
type Tools struct {
	BaseURL string        // the API's scheme and host, such as https://api.carrier.example
	Region  string        // for queries without a region; empty: such a query is an error
	HTTP    *http.Client  // nil: a client shared by all tools of the process
	Timeout time.Duration // timeout of one call; 0: 30 seconds
}

// HTTPError is a response of the API other than 2xx, in the chain of the error that a
// tool returns. Find it with errors.As. It contains no text from the server.
//
// A tool returns a *temporal.ApplicationError, with one of these types:
//
//   - the name of the HTTP status without spaces, such as NotFound. It is retryable,
//     after RetryAfter if there is one, except for 4xx other than 408 and 429.
//   - Timeout: no answer in time. errors.Is(err, context.DeadlineExceeded) holds.
//   - ConnectionFailed: no connection, or a broken one.
//   - BadAnswer: a 2xx with an unexpected body.
//
// A call that was cancelled returns context.Canceled.
type HTTPError = toolerror.HTTP

// Register registers the three tools under their activity types. Registering the struct
// itself would register them under the names of its methods.
func (t *Tools) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(t.GetDeliveryStatus, activity.RegisterOptions{Name: GetDeliveryStatus})
	r.RegisterActivityWithOptions(t.GetTrackingEvents, activity.RegisterOptions{Name: GetTrackingEvents})
	r.RegisterActivityWithOptions(t.CreateReturnLabel, activity.RegisterOptions{Name: CreateReturnLabel})
}

// GetDeliveryStatus returns where a parcel is and when it will arrive. It changes
// nothing at the carrier, so it is suitable as a probe.
func (t *Tools) GetDeliveryStatus(ctx context.Context, q Query) (Status, error) {
	q, err := t.checked(q)
	if err != nil {
		return Status{}, err
	}
	return httptool.Call(ctx, t.api(), httptool.Request{
		Tool:   GetDeliveryStatus,
		Method: http.MethodGet,
		Path:   []string{q.Region, "status", q.TrackingID},
	}, func(s Status) bool { return s.TrackingID == q.TrackingID })
}

// GetTrackingEvents returns the events of a parcel so far.
func (t *Tools) GetTrackingEvents(ctx context.Context, q Query) (Events, error) {
	q, err := t.checked(q)
	if err != nil {
		return Events{}, err
	}
	return httptool.Call(ctx, t.api(), httptool.Request{
		Tool:   GetTrackingEvents,
		Method: http.MethodGet,
		Path:   []string{q.Region, "events", q.TrackingID},
	}, func(e Events) bool { return e.TrackingID == q.TrackingID })
}

// CreateReturnLabel creates a label with which the customer can return the parcel. All
// attempts of one activity send the same Idempotency-Key, so a retry after a lost answer
// creates no second label.
func (t *Tools) CreateReturnLabel(ctx context.Context, q Query) (Label, error) {
	q, err := t.checked(q)
	if err != nil {
		return Label{}, err
	}
	return httptool.Call(ctx, t.api(), httptool.Request{
		Tool:   CreateReturnLabel,
		Method: http.MethodPost,
		Path:   []string{q.Region, "labels"},
		Body:   labelRequest{TrackingID: q.TrackingID},
	}, func(l Label) bool { return l.TrackingID == q.TrackingID && l.ID != "" })
}

type labelRequest struct {
	TrackingID string `json:"tracking_id"`
}

// checked sets the default region of q and rejects malformed identifiers. The carrier
// checks whether the region exists.
func (t *Tools) checked(q Query) (Query, error) {
	if q.Region == "" {
		q.Region = t.Region
	}
	if err := httptool.CheckID("region", q.Region); err != nil {
		return q, err
	}
	return q, httptool.CheckID("tracking_id", q.TrackingID)
}

func (t *Tools) api() httptool.API {
	return httptool.API{Dependency: Dependency, BaseURL: t.BaseURL, HTTP: t.HTTP, Timeout: t.Timeout}
}
