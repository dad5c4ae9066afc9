package interceptor_test

import (
	"context"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/toolcall"
)

// query is the argument of the tools, status their result.
type query struct {
	ID     string `json:"id"`
	Region string `json:"region"`
}

type status struct {
	State string `json:"state"`
}

func LookUp(context.Context, query) (status, error) { return status{}, nil }
func LookUpTyped(context.Context, query) (toolcall.Result[status], error) {
	return toolcall.Result[status]{}, nil
}
func lookUpAny[T any](context.Context, query) (T, error)                     { var zero T; return zero, nil }
func LookUpPointer(context.Context, query) (*toolcall.Result[status], error) { return nil, nil }
func Fire(context.Context) error                                             { return nil }

// byValue has its methods on the value, byPointer some on the pointer.
type byValue struct{}

func (byValue) Status(context.Context, query) (status, error) { return status{}, nil }
func (byValue) Typed(context.Context, query) (toolcall.Result[status], error) {
	return toolcall.Result[status]{}, nil
}

type byPointer struct{ byValue }

func (*byPointer) Label(context.Context, query) (string, error) { return "", nil }

// registeredBySDK returns the names under which the SDK registered a, from the list in its
// error.
func registeredBySDK(t *testing.T, a any, o activity.RegisterOptions) []string {
	t.Helper()
	env := newSuite().NewTestActivityEnvironment()
	env.RegisterActivityWithOptions(a, o)
	_, err := env.ExecuteActivity("no such activity")
	require.Error(t, err)
	list := regexp.MustCompile(`Supported types: \[(.*)\]`).FindStringSubmatch(err.Error())
	require.NotNil(t, list, err.Error())
	names := strings.Split(list[1], ", ")
	slices.Sort(names)
	return names
}

func TestActivityTypes_AreTheSDKsNames(t *testing.T) {
	t.Parallel()
	var values byValue
	pointers := &byPointer{}
	var none *byPointer
	closure := func(context.Context) error { return nil }
	named := activity.RegisterOptions{Name: "carrier_"}
	for name, c := range map[string]struct {
		a any
		o activity.RegisterOptions
	}{
		"function":                         {LookUp, activity.RegisterOptions{}},
		"named function":                   {LookUp, activity.RegisterOptions{Name: "get_delivery_status"}},
		"generic function":                 {lookUpAny[status], activity.RegisterOptions{}},
		"closure":                          {closure, activity.RegisterOptions{}},
		"named closure":                    {closure, activity.RegisterOptions{Name: "fire"}},
		"method value":                     {values.Status, activity.RegisterOptions{}},
		"method value of a pointer":        {pointers.Label, activity.RegisterOptions{}},
		"method value of nil":              {none.Label, activity.RegisterOptions{}},
		"promoted method value":            {pointers.Status, activity.RegisterOptions{}},
		"named method value":               {values.Status, activity.RegisterOptions{Name: "get_delivery_status"}},
		"struct":                           {pointers, activity.RegisterOptions{}},
		"struct with a prefix":             {pointers, named},
		"struct with methods on the value": {&values, named},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var names []string
			for name := range interceptor.ActivityTypes(c.a, c.o) {
				names = append(names, name)
			}
			slices.Sort(names)
			assert.Equal(t, registeredBySDK(t, c.a, c.o), names)
		})
	}
}

func TestActivityTypes_HaveTheTypeThatIsCalled(t *testing.T) {
	t.Parallel()
	types := interceptor.ActivityTypes(&byPointer{}, activity.RegisterOptions{Name: "carrier_"})
	assert.Equal(t, reflect.TypeFor[func(context.Context, query) (string, error)](), types["carrier_Label"], "without the receiver")
	assert.Equal(t, reflect.TypeOf(LookUp), interceptor.ActivityTypes(LookUp, activity.RegisterOptions{})["LookUp"])
	assert.Empty(t, interceptor.ActivityTypes(nil, activity.RegisterOptions{}), "the SDK panics, the plugin does not")
}

// A plain struct would decode a refusal to an empty answer.
func TestIsTyped_IfARefusalCanBeAValue(t *testing.T) {
	t.Parallel()
	type larger struct {
		toolcall.Result[status]
		Note string
	}
	for name, c := range map[string]struct {
		f    any
		want bool
	}{
		"plain":               {LookUp, false},
		"Result":              {LookUpTyped, true},
		"pointer to a Result": {LookUpPointer, true},
		"generic Result":      {lookUpAny[toolcall.Result[status]], true},
		"embedded Result":     {func(context.Context) (larger, error) { return larger{}, nil }, true},
		"method":              {byValue{}.Typed, true},
		"error alone":         {Fire, false},
		"refusal itself":      {func(context.Context) (toolcall.Unavailable, error) { return toolcall.Unavailable{}, nil }, false},
		"any":                 {func(context.Context) (any, error) { return nil, nil }, false},
		"list of Results":     {func(context.Context) ([]toolcall.Result[status], error) { return nil, nil }, false},
		"nothing":             {func(context.Context) {}, false},
	} {
		assert.Equal(t, c.want, interceptor.IsTyped(reflect.TypeOf(c.f)), name)
	}
}
