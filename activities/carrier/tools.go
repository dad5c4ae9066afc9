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

// Dependency is the name under which all three tools share one breaker a region.
const Dependency = "carrier-api"

// The names under which Register registers the tools.
const (
	GetDeliveryStatus = "get_delivery_status"
	GetTrackingEvents = "get_tracking_events"
	CreateReturnLabel = "create_return_label"
)

// Tools are the carrier's API as Temporal activities. Its methods are safe for
// concurrent use; its fields must not change once it is registered.
//
// A query whose identifiers are malformed is refused, as a non-retryable error of
// type InvalidQuery, before any call. A failed call ends as HTTPError describes.
type Tools struct {
	BaseURL string        // the API's scheme and host, such as https://api.carrier.example
	Region  string        // for queries that name none; empty: such a query is refused
	HTTP    *http.Client  // nil: a client shared by all tools of the process
	Timeout time.Duration // limit of one call; zero: 30 seconds
}

// HTTPError is an answer of the API other than 2xx; find it with errors.As. Its
// fields are Status, the HTTP status code, and RetryAfter, what the server's
// Retry-After asked for; classifiers may use its methods HTTPStatus and
// RetryAfterHint instead of the type. Its text holds nothing the server wrote.
//
// What an activity returns around it is a *temporal.ApplicationError whose type
// is the status's name without spaces, such as NotFound or ServiceUnavailable. A
// refusal, 4xx but for 408 and 429, is not retryable; the rest is, after
// RetryAfter where there is one. A call without an answer has the type Timeout,
// for which errors.Is(err, context.DeadlineExceeded) holds, or ConnectionFailed; an
// answer that is not what was asked for has BadAnswer. A call that was cancelled
// returns context.Canceled.
type HTTPError = toolerror.HTTP

// Register registers the three tools under their names. Registering the struct
// itself would name them after its methods.
func (t *Tools) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(t.GetDeliveryStatus, activity.RegisterOptions{Name: GetDeliveryStatus})
	r.RegisterActivityWithOptions(t.GetTrackingEvents, activity.RegisterOptions{Name: GetTrackingEvents})
	r.RegisterActivityWithOptions(t.CreateReturnLabel, activity.RegisterOptions{Name: CreateReturnLabel})
}

// GetDeliveryStatus says where a parcel is and when it will arrive. It changes
// nothing at the carrier, which makes it the tool to probe with.
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

// GetTrackingEvents lists a parcel's journey so far.
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

// CreateReturnLabel makes a label with which the customer can send the parcel
// back. All attempts of one activity carry the same Idempotency-Key, so that a
// retry after a lost answer makes no second label.
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

// checked completes q with the home region and refuses malformed identifiers.
// Whether the region exists is the carrier's to say.
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
