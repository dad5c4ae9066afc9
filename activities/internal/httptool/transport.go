package httptool

import (
	"net"
	"net/http"
	"time"
)

// sharedClient serves every tool that brings no client of its own.
//
// A call that times out over HTTP/1.1 closes its connection, so a hung one is
// never used again; over HTTP/2, where many calls share one, pings find it.
// Connections per host are unlimited: under a limit the calls behind hung ones
// would queue inside the client and their latency would say nothing of the
// dependency. The process's activity slots are the limit.
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
