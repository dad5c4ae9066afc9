package interceptor

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"
)

// registered is one activity type as a worker registered it.
type registered struct {
	taskQueue string
	// activity and options are what it was registered with, a struct of several
	// perhaps.
	activity any
	options  activity.RegisterOptions
}

// probeRegistrations gives what has to be registered, by task queue, to make
// synthetic calls.
func (p *Plugin) probeRegistrations() map[string][]registered {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string][]registered{}
	for name := range p.probes {
		r, ok := p.activities[name]
		known := slices.ContainsFunc(all[r.taskQueue], func(o registered) bool {
			// A struct of several activities is registered once; functions never are equal.
			return o.options == r.options && reflect.DeepEqual(o.activity, r.activity)
		})
		if ok && !known {
			all[r.taskQueue] = append(all[r.taskQueue], r)
		}
	}
	return all
}

// toolResult is what every toolcall.Result is.
type toolResult interface{ IsToolResult() }

var toolResultType = reflect.TypeFor[toolResult]()

// activityTypes gives the names under which the SDK registers a: one for a
// function, one a method for a struct.
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

// functionName is how the SDK names a function that has no name given.
func functionName(f reflect.Value) string {
	full := runtime.FuncForPC(f.Pointer()).Name()
	return strings.TrimSuffix(full[strings.LastIndex(full, ".")+1:], "-fm")
}

func isTyped(f reflect.Type) bool {
	return f.NumOut() == 2 && f.Out(0).Implements(toolResultType)
}

// checkRegistered names every tool and probe that no worker of the plugin has
// registered. A dynamic activity may be any of them.
func (p *Plugin) checkRegistered() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dynamic {
		return nil
	}
	var known []string
	for name := range p.activities {
		known = append(known, name)
	}
	slices.Sort(known)
	var errs []error
	for i, d := range p.dependencies {
		check := func(field, name string) {
			if _, ok := p.activities[name]; !ok {
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
