//go:build !noserver

package devserver

import (
	"fmt"
	"log/slog"
	"time"
)

func (o Options) withDefaults() Options {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Logger == nil {
		o.Logger = slog.New(warningsOnly{slog.Default().Handler()})
	}
	return o
}

func (o Options) validate() error {
	for _, p := range []struct {
		name string
		port int
	}{{"Port", o.Port}, {"UIPort", o.UIPort}} {
		if p.port < 0 || p.port > 65535 {
			return fmt.Errorf("%s is %d: use a port from 1 to 65535, or 0 for a free port", p.name, p.port)
		}
	}
	if o.Port != 0 && o.Port == o.UIPort && !o.NoUI {
		return fmt.Errorf("the options Port and UIPort are both %d: use two different ports", o.Port)
	}
	if o.TimerResolution < 0 || o.TimerResolution > 0 && o.TimerResolution < time.Millisecond {
		return fmt.Errorf("TimerResolution is %v: use 1ms or more, or 0 for the server's default", o.TimerResolution)
	}
	return nil
}
