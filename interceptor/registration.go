package interceptor

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"

	"go.temporal.io/sdk/activity"
)

// registered is one activity type that a worker has registered.
type registered struct {
	taskQueue string
	// activity and options are the arguments of the registration. One struct may register
	// several types.
	activity any
	options  activity.RegisterOptions
}

// registrations are the activities that the plugin's workers have registered. The zero
// registrations are empty.
type registrations struct {
	mu sync.Mutex
	// activities are keyed by type.
	activities map[string]registered
	// dynamic: a worker accepts activities of any type.
	dynamic bool
	// buildID is that of the last worker that has one.
	buildID string
}

func (r *registrations) add(activityType string, a registered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.activities == nil {
		r.activities = map[string]registered{}
	}
	r.activities[activityType] = a
}

func (r *registrations) addDynamic() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dynamic = true
}

// setBuildID sets the build ID unless id is empty.
func (r *registrations) setBuildID(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id != "" {
		r.buildID = id
	}
}

// build returns the build ID of this process's workers, "" if they have none.
func (r *registrations) build() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buildID
}

// taskQueue returns the task queue of an activity type of this plugin's workers.
func (r *registrations) taskQueue(activityType string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.activities[activityType].taskQueue
}

// types returns the registered activity types in order. all: a worker accepts any type.
func (r *registrations) types() (types []string, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.activities)), r.dynamic
}

// probeRegistrations returns the registrations for the synthetic calls, by task queue.
func (p *Plugin) probeRegistrations() map[string][]registered {
	p.registrations.mu.Lock()
	defer p.registrations.mu.Unlock()
	all := map[string][]registered{}
	for name := range p.probes {
		r, ok := p.registrations.activities[name]
		known := slices.ContainsFunc(all[r.taskQueue], func(o registered) bool {
			// A struct of several activities is registered once. Functions are never equal.
			return o.options == r.options && reflect.DeepEqual(o.activity, r.activity)
		})
		if ok && !known {
			all[r.taskQueue] = append(all[r.taskQueue], r)
		}
	}
	return all
}

// toolResult is implemented by every toolcall.Result.
type toolResult interface{ IsToolResult() }

var toolResultType = reflect.TypeFor[toolResult]()

// activityTypes returns the types that the SDK registers for a: one for a function, one
// for each method of a struct.
func activityTypes(a any, o activity.RegisterOptions) map[string]reflect.Type {
	v := reflect.ValueOf(a)
	if !v.IsValid() {
		return nil
	}
	if v.Kind() == reflect.Func {
		name := o.Name
		if name == "" {
			name = functionName(v)
		}
		return map[string]reflect.Type{name: v.Type()}
	}
	types := map[string]reflect.Type{}
	for i := range v.NumMethod() {
		types[o.Name+v.Type().Method(i).Name] = v.Method(i).Type()
	}
	return types
}

// functionName is the SDK's name for a function that is registered without one.
func functionName(f reflect.Value) string {
	full := runtime.FuncForPC(f.Pointer()).Name()
	return strings.TrimSuffix(full[strings.LastIndex(full, ".")+1:], "-fm")
}

// isTyped reports whether an activity returns a toolcall.Result.
func isTyped(f reflect.Type) bool {
	return f.NumOut() == 2 && f.Out(0).Implements(toolResultType)
}

// checkRegistered returns an error for each tool and probe that no worker of the plugin
// has registered. A dynamic activity can be any of them.
func (p *Plugin) checkRegistered() error {
	known, all := p.registrations.types()
	if all {
		return nil
	}
	var errs []error
	for i, d := range p.dependencies {
		check := func(field, name string) {
			if _, ok := slices.BinarySearch(known, name); !ok {
				errs = append(errs, fmt.Errorf("%s: no worker of this plugin has registered an activity %q; registered are: %s",
					dependencyField(i, d.Name)+"."+field, name, strings.Join(known, ", ")))
			}
		}
		for j, name := range d.Tools {
			check(fmt.Sprintf("Tools[%d]", j), name)
		}
		if !d.Probe.none {
			check("Probe", d.Probe.activity)
		}
	}
	return errors.Join(errs...)
}
