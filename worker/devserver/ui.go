//go:build !noserver

package devserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/temporalio/ui-server/v2/server/api"
	"github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/csrf"
	"github.com/temporalio/ui-server/v2/server/headers"
	"github.com/temporalio/ui-server/v2/server/route"
	"github.com/temporalio/ui-server/v2/ui"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// maxResponse bounds a response to the UI. A long history is one response.
const maxResponse = 64 << 20

// webUI serves Temporal's web UI. It uses the parts of the UI server, because the
// whole server ends the process when its port is taken, and keeps its connection to
// Temporal after it was stopped.
type webUI struct {
	server *http.Server
	conn   *grpc.ClientConn
	url    string
	served chan struct{}
}

// startUI takes ownership of the listener, also when it fails.
func startUI(l net.Listener, frontend string, o Options) (*webUI, error) {
	handler, conn, err := uiHandler(frontend, o)
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("web UI: %w", err)
	}
	u := &webUI{
		server: &http.Server{
			Handler:           handler,
			ReadHeaderTimeout: 10 * time.Second,
			ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
		},
		conn:   conn,
		url:    "http://" + l.Addr().String(),
		served: make(chan struct{}),
	}
	go func() {
		defer close(u.served)
		if err := u.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("the web UI stopped", "url", u.url, "error", err)
		}
	}()
	return u, nil
}

// stop gives open requests a moment to finish, and then closes the others, such as a
// browser's long poll.
func (u *webUI) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if u.server.Shutdown(ctx) != nil {
		_ = u.server.Close()
	}
	<-u.served
	_ = u.conn.Close()
}

func uiHandler(frontend string, o Options) (http.Handler, *grpc.ClientConn, error) {
	// Write actions stay enabled: operators signal and update workflows from this UI.
	cfg, err := config.NewConfigProviderWithRefresh(&config.Config{
		TemporalGRPCAddress: frontend,
		EnableUI:            true,
		DefaultNamespace:    o.Namespace,
		DisableNewsFetch:    true,
		NotifyOnNewVersion:  false,
		HideLogs:            true,
	})
	if err != nil {
		return nil, nil, err
	}
	assets, err := ui.Assets()
	if err == nil {
		assets, err = fs.Sub(assets, "local")
	}
	if err != nil {
		return nil, nil, err
	}
	conn, err := grpc.NewClient(frontend,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponse)))
	if err != nil {
		return nil, nil, err
	}

	e := echo.New()
	e.Logger.SetOutput(slog.NewLogLogger(o.Logger.Handler(), slog.LevelError).Writer())
	// No CORS middleware: other sites must not use this API. Cookies are sent over HTTP,
	// because the server listens on loopback only.
	e.Use(middleware.Recover(), middleware.Gzip(), middleware.Secure(),
		csrf.EnsureTokenCookie(false), middleware.CSRFWithConfig(csrf.MiddlewareConfig(cfg, false)))
	route.SetHealthRoute(e)
	setAPIRoutes(e, cfg, conn)
	if err := route.SetUIRoutes(e, "", assets, cfg); err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	route.SetRenderRoute(e, "/")
	return e, conn, nil
}

func setAPIRoutes(e *echo.Echo, cfg *config.ConfigProviderWithRefresh, conn *grpc.ClientConn) {
	forward := []api.Middleware{headers.WithForwardHeaders([]string{"Caller-Type"})}
	v1 := e.Group("/api/v1")
	v1.GET("/settings", api.GetSettings(cfg))
	v1.GET("/releases", api.GetLatestReleases(cfg, api.NewReleaseChecker())) // no request is sent, because NotifyOnNewVersion is off
	v1.GET("/ui-extensions", api.GetUIExtensions(cfg, nil))
	v1.GET(api.WorkflowRawHistoryUrl, api.WorkflowRawHistoryHandler(workflowservice.NewWorkflowServiceClient(conn)))
	v1.Any("/*", api.TemporalAPIHandler(cfg, forward, conn))
}
