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

// searchedStates notes the state attribute of each upsert.
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

func TestSearchAttributes_FollowTheStatesWhereTheNamespaceHasThem(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
	i.namespaceHasSearchAttributes(func(context.Context) (bool, error) { return true, nil })
	states := i.searchedStates()
	i.run(settings())
	// The first is what was current when the namespace had answered.
	if (*states)[0] == "suspected" {
		*states = (*states)[1:]
	}
	assert.Equal(t, []string{"open", "half-open", "recovering", "recovering", "recovering", "closed"}, *states)
}

func TestSearchAttributes_TellADismissedSuspicion(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.namespaceHasSearchAttributes(func(context.Context) (bool, error) { return true, nil })
	states := i.searchedStates()
	i.fleet = 2
	i.runWith(settings(), down("worker-1"), healthy("worker-2"))
	assert.Equal(t, []string{"suspected", "dismissed"}, *states)
}

// Setting one that the namespace lacks would fail the workflow task, again and
// again, and no outage would ever end.
func TestSearchAttributes_AreLeftAloneWhereTheNamespaceLacksThem(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(context.Context) (bool, error){
		"lacks them":   func(context.Context) (bool, error) { return false, nil },
		"may not tell": func(context.Context) (bool, error) { return true, errors.New("permission denied") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIncident(t)
			i.heard = i.busy
			i.namespaceHasSearchAttributes(answer)
			states := i.searchedStates()
			i.run(settings())
			assert.Empty(t, *states)
			assert.Equal(t, wholeStory, i.states())
		})
	}
}

// The namespace is asked beside everything else: the verdict does not wait.
func TestSearchAttributes_AreSetLateWhereTheAnswerIsLate(t *testing.T) {
	t.Parallel()
	i := newIncident(t)
	i.heard = i.busy
	i.env.OnActivity(probeworkflow.SearchAttributesActivity, mock.Anything).Return(true, nil).After(5 * time.Second)
	states := i.searchedStates()
	i.run(settings())
	assert.True(t, start.Equal(i.times[0]))
	assert.Equal(t, []string{"open", "half-open", "recovering", "recovering", "recovering", "closed"}, *states)
}
