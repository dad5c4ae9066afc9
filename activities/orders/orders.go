// Package orders is a shop's order lookup as a Temporal activity: a dependency
// of its own, which goes on working while the carrier's API is down.
package orders

import (
	"context"
	"net/http"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"github.com/toolbreaker/toolbreaker/activities/internal/httptool"
	"github.com/toolbreaker/toolbreaker/toolerror"
)

// Dependency is the name of the order database's breaker.
const Dependency = "order-db"

// LookupOrder is the name under which Register registers the tool.
const LookupOrder = "lookup_order"

// Query asks for one order.
type Query struct {
	OrderID string `json:"order_id"`
}

// Order is what a customer bought, and how it travels.
type Order struct {
	ID         string `json:"id"`
	Customer   string `json:"customer"`
	TrackingID string `json:"tracking_id"`
	Region     string `json:"region"` // the carrier's region that delivers it
	Item       string `json:"item"`
}

// Tools are the order database as Temporal activities. Its methods are safe for
// concurrent use; its fields must not change once it is registered.
type Tools struct {
	BaseURL string        // the database's scheme and host
	HTTP    *http.Client  // nil: a client shared by all tools of the process
	Timeout time.Duration // limit of one call; zero: 30 seconds
}

// HTTPError is an answer other than 2xx, with the fields, the methods and the
// errors around it that package carrier documents for its own.
type HTTPError = toolerror.HTTP

// Register registers the tool under its name.
func (t *Tools) Register(r worker.ActivityRegistry) {
	r.RegisterActivityWithOptions(t.LookupOrder, activity.RegisterOptions{Name: LookupOrder})
}

// LookupOrder finds an order by its ID; one that does not exist ends in a
// non-retryable error of type NotFound.
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
