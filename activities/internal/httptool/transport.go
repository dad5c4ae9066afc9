package httptool

import (
	"net"
	"net/http"
	"time"
)

// sharedClient is used by every tool without a client of its own.
//
// A call that times out over HTTP/1.1 closes its connection, so a hanging connection is
// not reused. Over HTTP/2, where many calls share one, pings detect it. Connections per
// host are unlimited, because calls that wait for one inside the client would appear
// slow. The number of calls is limited by the activity slots of the process.
var sharedClient = &http.Client{Transport: newTransport()}

func newTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ExpectContinueTimeout: time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       30 * time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second},
	}
}
