package orders

import (
	"context"
	"net/http"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/activities/internal/httptool"
)

// Dependency is the name of the tool's dependency.
const Dependency = "order-db"

// LookupOrder is the activity type of the tool.
const LookupOrder = "lookup_order"

// Query names one order.
type Query struct {
	OrderID string `json:"order_id"`
}

// Order is one order of a customer, with the parcel that delivers it.
type Order struct {
	ID         string `json:"id"`
	Customer   string `json:"customer"`
	TrackingID string `json:"tracking_id"`
	Region     string `json:"region"` // the carrier's region that delivers it
	Item       string `json:"item"`
}

// Tools are the order database as Temporal activities. The methods may be called
// concurrently. The fields must not change after Register.
type Tools struct {
	BaseURL string        // the database's scheme and host
	HTTP    *http.Client  // nil: a client shared by all tools of the process
	Timeout time.Duration // timeout of one call; 0: 30 seconds
}

// Register registers the tool under its activity type.
func (t *Tools) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(t.LookupOrder, activity.RegisterOptions{Name: LookupOrder})
}

// LookupOrder returns an order by its ID. For an unknown ID it returns a non-retryable
// error of type NotFound. Other errors are as in package carrier.
func (t *Tools) LookupOrder(ctx context.Context, q Query) (Order, error) {
	if err := httptool.CheckID("order_id", q.OrderID); err != nil {
		return Order{}, err
	}
	api := httptool.API{Dependency: Dependency, BaseURL: t.BaseURL, HTTP: t.HTTP, Timeout: t.Timeout}
	return httptool.Call(ctx, api, httptool.Request{
		Tool:   LookupOrder,
		Method: http.MethodGet,
		Path:   []string{"orders", q.OrderID},
	}, func(o Order) bool { return o.ID == q.OrderID })
}
