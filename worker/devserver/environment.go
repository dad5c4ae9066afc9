package devserver

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
// configures the way Temporal's own tools read it: TEMPORAL_ADDRESS,
// TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, TEMPORAL_TLS and their kin, or a
// profile in the file that TEMPORAL_CONFIG_FILE names.
//
// What is configured there replaces what base says; the rest of base stays. A
// codec alone configures no service, and none is applied: give base a data
// converter.
//
// With configured false there is nothing to connect to, and the caller starts
// a server of its own with [Start]. With configured true and an error, the
// configuration is broken or the service did not answer within five seconds.
func FromEnvironment(base client.Options) (c client.Client, configured bool, err error) {
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
		return nil, true, connectError(profile, o.HostPort, err)
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

func connectError(p envconfig.ClientConfigProfile, address string, err error) error {
	source, instead := "from Temporal's profile file", "remove the profile"
	switch {
	case p.Address == "":
		source, instead = "since the environment configures Temporal without an address", "unset the TEMPORAL_ variables and remove the profile"
	case os.Getenv("TEMPORAL_ADDRESS") != "":
		source, instead = "from TEMPORAL_ADDRESS", "unset TEMPORAL_ADDRESS"
	}
	if unanswered(err) {
		return fmt.Errorf("no Temporal server answers at %s (%s): start one there, or %s to use the embedded server: %w", address, source, instead, err)
	}
	return fmt.Errorf("the Temporal server at %s (%s) refuses the connection: check the API key and TLS settings, or %s to use the embedded server: %w", address, source, instead, err)
}

func unanswered(err error) bool {
	var unavailable *serviceerror.Unavailable
	var late *serviceerror.DeadlineExceeded
	return errors.As(err, &unavailable) || errors.As(err, &late) || errors.Is(err, context.DeadlineExceeded)
}
