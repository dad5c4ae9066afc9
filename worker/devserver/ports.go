//go:build !noserver

package devserver

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

const (
	loopback = "127.0.0.1"

	preferredPort = 7233 // the default of Temporal's clients
	uiPortOffset  = 1000 // as in Temporal's own development server
	pairStep      = 100  // skips 7234 to 7243, which other Temporal services use
	pairs         = 10   // after that the operating system chooses
)

// ports are the ports of one server. The UI's listener is already open. The other
// ports were free when chosen, and the Temporal server opens them itself.
type ports struct {
	frontend, history, matching, worker int
	ui                                  net.Listener // nil without UI
}

func (p ports) close() {
	if p.ui != nil {
		_ = p.ui.Close()
	}
}

func choosePorts(o Options) (ports, error) {
	var p ports
	if o.Port != 0 && !free(o.Port) {
		return p, errPortTaken("Port", o.Port)
	}
	if o.UIPort != 0 && !o.NoUI && !free(o.UIPort) {
		return p, errPortTaken("UIPort", o.UIPort)
	}
	if err := p.choosePair(o); err != nil {
		return p, err
	}
	internal, err := freePorts(3)
	if err != nil {
		p.close()
		return p, err
	}
	p.history, p.matching, p.worker = internal[0], internal[1], internal[2]
	return p, nil
}

func (p *ports) choosePair(o Options) error {
	for i := range pairs {
		port, uiPort := o.Port, o.UIPort
		if port == 0 {
			port = preferredPort + i*pairStep
		}
		if uiPort == 0 {
			uiPort = port + uiPortOffset
		}
		if p.take(port, uiPort, o.NoUI) {
			return nil
		}
	}
	port, uiPort := o.Port, o.UIPort
	if port == 0 {
		found, err := freePorts(1)
		if err != nil {
			return err
		}
		port = found[0]
	}
	if p.take(port, uiPort, o.NoUI) { // uiPort 0: the operating system chooses
		return nil
	}
	return fmt.Errorf("no free pair of ports on %s for the server and its UI: stop another server, or set Port and UIPort", loopback)
}

func (p *ports) take(port, uiPort int, noUI bool) bool {
	if port > 65535 || uiPort > 65535 || !free(port) {
		return false
	}
	if !noUI {
		if uiPort != 0 && !free(uiPort) {
			return false
		}
		l, err := net.Listen("tcp", address(uiPort))
		if err != nil {
			return false
		}
		p.ui = l
	}
	p.frontend = port
	return true
}

// free also tries to connect, because some systems allow a second listener on a port
// that another process has opened on all interfaces.
func free(port int) bool {
	conn, err := net.DialTimeout("tcp", address(port), time.Second)
	if err == nil {
		_ = conn.Close()
		return false
	}
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

// freePorts opens all n ports before it closes any, so they differ.
func freePorts(n int) ([]int, error) {
	found := make([]int, n)
	for i := range found {
		l, err := net.Listen("tcp", address(0))
		if err != nil {
			return nil, fmt.Errorf("no free port on %s: %w", loopback, err)
		}
		defer func() { _ = l.Close() }()
		found[i] = l.Addr().(*net.TCPAddr).Port
	}
	return found, nil
}

func address(port int) string {
	return net.JoinHostPort(loopback, strconv.Itoa(port))
}

// errLostPort tells that another process took a port after it was chosen.
var errLostPort = errors.New("another process took a port meanwhile")

func errPortTaken(option string, port int) error {
	return fmt.Errorf("port %d on %s is taken: stop the process that listens there, or set %s to another port, or to 0 for a free port", port, loopback, option)
}
