package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commandpb "go.temporal.io/api/command/v1"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/toolbreaker/toolbreaker/probeworkflow"
)

// sharedServer is the address of the Temporal server that TestMain starts. Every test has
// its own namespace, and so its own board, outages and workers. Tests that stop the
// server, or change its limits, start their own.
var sharedServer string

// sharedServerArgs make timers precise enough for every scenario, and let all services
// of the server see a new namespace soon.
var sharedServerArgs = []string{"-timer-resolution", "100ms", "-set", "system.namespaceCacheRefreshInterval=200ms"}

// uncompressed disables the compression of requests. Under the race detector it takes half
// of a test's processor time. The workers of tests/processes compress.
var uncompressed = client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}}

// startServer starts a server in a separate process. It returns its address, and a
// function that stops it.
func startServer(args ...string) (address string, stop func() error, err error) {
	server := exec.Command(temporalCommand, args...)
	server.Stderr = os.Stderr
	stdin, err := server.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	stdout, err := server.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := server.Start(); err != nil {
		return "", nil, err
	}
	stop = sync.OnceValue(func() error {
		_ = stdin.Close()
		return server.Wait()
	})
	address, err = bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("starting the server: %w", err), stop())
	}
	return strings.TrimSpace(address), stop, nil
}

// startOwnServer starts a server for one test. It runs until stop is called or the test
// ends.
func startOwnServer(t *testing.T, args ...string) (address string, stop func()) {
	t.Helper()
	address, end, err := startServer(args...)
	require.NoError(t, err)
	stop = func() { assert.NoError(t, end()) }
	t.Cleanup(stop)
	return address, stop
}

var namespaces atomic.Int64

// newNamespace registers a namespace on the shared server, named after the test.
func newNamespace(t *testing.T) string {
	t.Helper()
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(t.Name()), "-"), "-")
	name = fmt.Sprintf("%s-%d", name, namespaces.Add(1))
	c, err := client.Dial(client.Options{
		HostPort: sharedServer, Namespace: name, Logger: log.NewStructuredLogger(discard), ConnectionOptions: uncompressed,
	})
	require.NoError(t, err)
	defer c.Close()
	_, err = c.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	return name
}

var searchAttributes = []string{probeworkflow.SearchDependency, probeworkflow.SearchRegion, probeworkflow.SearchState}

// newSearchableNamespace registers a namespace with the search attributes of outages.
func newSearchableNamespace(t *testing.T) string {
	t.Helper()
	name := newNamespace(t)
	c, err := client.Dial(client.Options{
		HostPort: sharedServer, Namespace: name, Logger: log.NewStructuredLogger(discard), ConnectionOptions: uncompressed,
	})
	require.NoError(t, err)
	defer c.Close()
	attributes := map[string]enums.IndexedValueType{}
	for _, attribute := range searchAttributes {
		attributes[attribute] = enums.INDEXED_VALUE_TYPE_KEYWORD
	}
	// The frontend and the history service have separate caches of namespaces. Both know
	// the attributes once a workflow that sets them completes and is listed.
	require.Eventually(t, func() bool {
		_, err := c.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
			Namespace: name, SearchAttributes: attributes,
		})
		var exists *serviceerror.AlreadyExists
		return err == nil || errors.As(err, &exists)
	}, waitTimeout, 50*time.Millisecond, "registering search attributes")
	require.Eventually(t, func() bool { return canSetSearchAttributes(t.Context(), c, name) }, waitTimeout, 50*time.Millisecond,
		"setting search attributes in a workflow")
	return name
}

// canSetSearchAttributes runs a workflow that sets every search attribute, and reports
// whether the server accepts them.
func canSetSearchAttributes(ctx context.Context, c client.Client, namespace string) bool {
	const queue = "search-attributes"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // polling requires a deadline
	defer cancel()
	service := c.WorkflowService()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue}, "SetSearchAttributes")
	if err != nil {
		return false
	}
	defer func() { _ = c.TerminateWorkflow(ctx, run.GetID(), run.GetRunID(), "") }()
	task, err := service.PollWorkflowTaskQueue(ctx, &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue},
	})
	if err != nil || len(task.GetTaskToken()) == 0 {
		return false
	}
	value, err := converter.GetDefaultDataConverter().ToPayload("none")
	if err != nil {
		return false
	}
	fields := map[string]*commonpb.Payload{}
	for _, attribute := range searchAttributes {
		fields[attribute] = value
	}
	_, err = service.RespondWorkflowTaskCompleted(ctx, &workflowservice.RespondWorkflowTaskCompletedRequest{
		Namespace: namespace, TaskToken: task.GetTaskToken(),
		Commands: []*commandpb.Command{
			{
				CommandType: enums.COMMAND_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES,
				Attributes: &commandpb.Command_UpsertWorkflowSearchAttributesCommandAttributes{
					UpsertWorkflowSearchAttributesCommandAttributes: &commandpb.UpsertWorkflowSearchAttributesCommandAttributes{
						SearchAttributes: &commonpb.SearchAttributes{IndexedFields: fields},
					},
				},
			},
			{
				CommandType: enums.COMMAND_TYPE_COMPLETE_WORKFLOW_EXECUTION,
				Attributes: &commandpb.Command_CompleteWorkflowExecutionCommandAttributes{
					CompleteWorkflowExecutionCommandAttributes: &commandpb.CompleteWorkflowExecutionCommandAttributes{},
				},
			},
		},
	})
	if err != nil {
		return false
	}
	// If the history service does not know an attribute, it fails the workflow or its task.
	desc, err := c.DescribeWorkflowExecution(ctx, run.GetID(), run.GetRunID())
	if err != nil || desc.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		return false
	}
	_, err = c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("%s = 'none' AND %s = 'none' AND %s = 'none'", searchAttributes[0], searchAttributes[1], searchAttributes[2]),
	})
	return err == nil
}
