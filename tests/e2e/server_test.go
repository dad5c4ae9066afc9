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

// sharedServer is the address of the Temporal server that TestMain starts. Every
// test has a namespace of its own on it, and so a board, outages and workers of its
// own. Tests that stop a server, or change its limits, start another one.
var sharedServer string

// sharedSettings are the shared server's: a timer is late by less than what any
// story distinguishes, and a new namespace is known to all services soon.
var sharedSettings = []string{"-timer-resolution", "100ms", "-set", "system.namespaceCacheRefreshInterval=200ms"}

// uncompressed are connections without the SDK's usual compression. Under the race
// detector compression alone takes half of a test's processor time. The workers of
// tests/processes compress.
var uncompressed = client.ConnectionOptions{GrpcCompression: &client.GrpcCompressionNone{}}

// startServer starts a server in a process of its own. It gives its address, and
// what stops it.
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
		return "", nil, errors.Join(fmt.Errorf("the server has not started: %w", err), stop())
	}
	return strings.TrimSpace(address), stop, nil
}

// runTemporal starts a server for one test alone, until stop is called or the test
// ends.
func runTemporal(t *testing.T, args ...string) (address string, stop func()) {
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

// newListedNamespace registers a namespace in which outages can be listed by their
// search attributes.
func newListedNamespace(t *testing.T) string {
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
	// Each service of the server reads namespaces into a cache of its own: the frontend,
	// which takes the attributes and the lists, and history, which takes a workflow's
	// commands. A workflow that sets them is believed by both.
	require.Eventually(t, func() bool {
		_, err := c.OperatorService().AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
			Namespace: name, SearchAttributes: attributes,
		})
		var exists *serviceerror.AlreadyExists
		return err == nil || errors.As(err, &exists)
	}, patience, 50*time.Millisecond, "search attributes can be registered")
	require.Eventually(t, func() bool { return setsSearchAttributes(t.Context(), c, name) }, patience, 50*time.Millisecond,
		"a workflow can set the search attributes")
	return name
}

// setsSearchAttributes has a workflow set every search attribute, and tells whether
// the server took it.
func setsSearchAttributes(ctx context.Context, c client.Client, namespace string) bool {
	const queue = "search-attributes"
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // the server wants one
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
	// Where history does not know an attribute, it ends the workflow, or has the task
	// done again.
	desc, err := c.DescribeWorkflowExecution(ctx, run.GetID(), run.GetRunID())
	if err != nil || desc.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		return false
	}
	_, err = c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("%s = 'none' AND %s = 'none' AND %s = 'none'", searchAttributes[0], searchAttributes[1], searchAttributes[2]),
	})
	return err == nil
}
