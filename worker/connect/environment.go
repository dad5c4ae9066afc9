package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

const connectTimeout = 5 * time.Second

// FromEnvironment connects to the Temporal service that the environment
// configures. It reads what Temporal's own tools read: TEMPORAL_ADDRESS,
// TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS and the like, or a profile in
// the file that TEMPORAL_CONFIG_FILE names.
//
// Configured options replace those of base. A codec alone configures no service,
// and no codec is applied: set base.DataConverter instead.
//
// configured is false when no service is configured; then c and err are nil. With
// configured and an error, the configuration is invalid or the service did not
// answer within five seconds.
//
// fallback is what the caller uses when no service is configured, such as "the
// embedded server". Errors mention it. Empty: nothing.
func FromEnvironment(base client.Options, fallback string) (c client.Client, configured bool, err error) {
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return nil, true, fmt.Errorf("the environment's Temporal configuration cannot be read: %w", err)
	}
	if !namesService(profile) {
		return nil, false, nil
	}
	o, err := profile.ToClientOptions(envconfig.ToClientOptionsRequest{})
	if err != nil {
		return nil, true, fmt.Errorf("the environment's Temporal configuration cannot be used: %w", err)
	}
	o = override(base, o)

	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	c, err = client.DialContext(ctx, o)
	if err != nil {
		return nil, true, connectError(profile, o.HostPort, fallback, err)
	}
	return c, true, nil
}

func namesService(p envconfig.ClientConfigProfile) bool {
	return p.Address != "" || p.Namespace != "" || p.APIKey != "" || p.Authority != "" || p.TLS != nil || len(p.GRPCMeta) > 0
}

func override(base, by client.Options) client.Options {
	base.HostPort = cmp.Or(by.HostPort, base.HostPort, client.DefaultHostPort)
	base.Namespace = cmp.Or(by.Namespace, base.Namespace)
	if by.Credentials != nil {
		base.Credentials = by.Credentials
	}
	if by.HeadersProvider != nil {
		base.HeadersProvider = by.HeadersProvider
	}
	connection := &base.ConnectionOptions
	if by.ConnectionOptions.TLS != nil || by.ConnectionOptions.TLSDisabled {
		connection.TLS, connection.TLSDisabled = by.ConnectionOptions.TLS, by.ConnectionOptions.TLSDisabled
	}
	connection.Authority = cmp.Or(by.ConnectionOptions.Authority, connection.Authority)
	return base
}

func connectError(p envconfig.ClientConfigProfile, address, fallback string, err error) error {
	source, correct, remove := "from Temporal's profile file", "correct the profile", "remove the profile"
	switch {
	case p.Address == "":
		source, correct, remove = "the default, since no address is configured", "set TEMPORAL_ADDRESS", "unset the TEMPORAL_ variables and remove the profile"
	case os.Getenv("TEMPORAL_ADDRESS") != "":
		source, correct, remove = "from TEMPORAL_ADDRESS", "correct TEMPORAL_ADDRESS", "unset TEMPORAL_ADDRESS"
	}
	instead := correct
	if fallback != "" {
		instead = remove + " to use " + fallback
	}
	if unanswered(err) {
		return fmt.Errorf("no Temporal server answers at %s (%s): start one there, or %s: %w", address, source, instead, err)
	}
	return fmt.Errorf("the Temporal server at %s (%s) refuses the connection: check the API key and TLS settings, or %s: %w", address, source, instead, err)
}

func unanswered(err error) bool {
	var unavailable *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	return errors.As(err, &unavailable) || errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded)
}
