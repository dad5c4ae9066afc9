package probeworkflow_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/temporal"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// searchedStates records the state attribute of each upsert.
func (i *incident) searchedStates() *[]string {
	var states []string
	i.env.OnUpsertTypedSearchAttributes(mock.Anything).Run(func(args mock.Arguments) {
		attributes := args.Get(0).(temporal.SearchAttributes)
		dependency, _ := attributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword("BreakerDependency"))
		region, _ := attributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword("BreakerRegion"))
		state, _ := attributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword("BreakerState"))
		assert.Equal(i.t, key, breaker.Key{Dependency: dependency, Region: region})
		states = append(states, state)
	}).Return(nil).Maybe()
	return &states
}

func (i *incident) namespaceHasSearchAttributes(answer func(context.Context) (bool, error)) {
	i.env.OnActivity(probeworkflow.SearchAttributesActivity, mock.Anything).Return(answer)
}

func TestSearchAttributes_ShowEachState(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	i.namespaceHasSearchAttributes(func(context.Context) (bool, error) { return true, nil })
	states := i.searchedStates()
	i.run(settings())
	// The first upsert has the state at the time of the activity's result.
	if (*states)[0] == "suspected" {
		*states = (*states)[1:]
	}
	assert.Equal(t, []string{"open", "half-open", "recovering", "recovering", "recovering", "closed"}, *states)
}

func TestSearchAttributes_ShowADismissedSuspicion(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.namespaceHasSearchAttributes(func(context.Context) (bool, error) { return true, nil })
	states := i.searchedStates()
	i.fleet = 2
	i.runWith(settings(), down("worker-1"), healthy("worker-2"))
	assert.Equal(t, []string{"suspected", "dismissed"}, *states)
}

// An attribute that the namespace lacks would fail every retry of the workflow
// task, and no outage would end.
func TestSearchAttributes_AreNotSetIfTheNamespaceLacksThem(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) (bool, error){
		"not defined": func(context.Context) (bool, error) { return false, nil },
		"no access":   func(context.Context) (bool, error) { return true, errors.New("permission denied") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.onVerdict = i.busy
			i.namespaceHasSearchAttributes(answer)
			states := i.searchedStates()
			i.run(settings())
			assert.Empty(t, *states)
			assert.Equal(t, allStates, i.states())
		})
	}
}

// The check runs concurrently, so the verdict does not wait for it.
func TestSearchAttributes_AreSetLateIfTheCheckIsLate(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.onVerdict = i.busy
	i.env.OnActivity(probeworkflow.SearchAttributesActivity, mock.Anything).Return(true, nil).After(5 * time.Second)
	states := i.searchedStates()
	i.run(settings())
	assert.True(t, start.Equal(i.times[0]))
	assert.Equal(t, []string{"open", "half-open", "recovering", "recovering", "recovering", "closed"}, *states)
}
