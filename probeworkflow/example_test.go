package probeworkflow_test

import (
	"fmt"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// The outage of a key is found by its workflow ID.
func ExampleOutageID() {
	fmt.Println(probeworkflow.OutageID(breaker.Key{Dependency: "carrier-api", Region: "eu-west"}))
	// Output: outage/carrier-api/eu-west
}
