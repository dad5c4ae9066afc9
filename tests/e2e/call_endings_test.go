package e2e_test

import "testing"

// TestCallEndings tests each way in which a tool call can end: what the breaker records,
// and what the workflow receives. Each group has its own namespace, so it has its own
// fleet.
func TestCallEndings(t *testing.T) {
	for name, group := range map[string]func(*testing.T){
		"samples":            testSamples,
		"async completion":   testAsyncCompletion,
		"activity kinds":     testActivityKinds,
		"retries":            testRetries,
		"refusals":           testRefusals,
		"encryption":         testEncryption,
		"await recovery":     testAwaitRecovery,
		"shutdown":           testWorkerShutdown,
		"other interceptors": testOtherInterceptors,
		"tracing":            testTracing,
		"two plugins":        testTwoPlugins,
		"plugin given twice": testPluginGivenTwice,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			group(t)
		})
	}
}
