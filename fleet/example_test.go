package fleet_test

import (
	"fmt"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/fleet"
)

// One failing worker does not open the breakers of all workers.
func ExampleJudge() {
	c := breaker.Config{}.WithDefaults()
	report := func(worker string, failures int) fleet.Report {
		window := breaker.Counts{Samples: 20, Failures: failures}
		return fleet.Report{Worker: worker, Evidence: breaker.Evidence{Window: window}}
	}
	_, down := fleet.Judge(c.Judge, []fleet.Report{report("a", 20), report("b", 0), report("c", 0)})
	fmt.Println("one of three fails:", down)
	_, down = fleet.Judge(c.Judge, []fleet.Report{report("a", 20), report("b", 20), report("c", 20)})
	fmt.Println("all fail:", down)
	fmt.Println("outliers:", fleet.Outliers(c, []fleet.Report{report("a", 20), report("b", 0)}))
	// Output:
	// one of three fails: false
	// all fail: true
	// outliers: [a]
}
