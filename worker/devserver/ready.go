//go:build !noserver

package devserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	startTimeout  = 30 * time.Second // if the context has no earlier deadline
	probeInterval = 5 * time.Millisecond
	probeName     = "devserver-readiness" // no such workflow or task queue exists
)

// awaitReady returns when each service has answered for the namespace. The requests
// change nothing: no workflow is started.
func awaitReady(ctx context.Context, frontend string, o Options) error {
	conn, err := grpc.NewClient(frontend, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	service := workflowservice.NewWorkflowServiceClient(conn)

	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for _, check := range []struct {
		what string
		ask  func(context.Context, workflowservice.WorkflowServiceClient, Options) error
	}{
		{"workflow executions", executionsAnswer},
		{"task queues", taskQueuesAnswer},
		{"search attributes", searchAttributesAnswer},
	} {
		for {
			err := check.ask(ctx, service, o)
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("the server at %s started but is not ready: no answer for %s: %w: %w", frontend, check.what, ctx.Err(), err)
			case <-time.After(probeInterval):
			}
		}
	}
	return nil
}

// executionsAnswer needs the frontend, the namespace and the history shard for the
// answer that an execution does not exist.
func executionsAnswer(ctx context.Context, service workflowservice.WorkflowServiceClient, o Options) error {
	_, err := service.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
		Namespace: o.Namespace,
		Execution: &commonpb.WorkflowExecution{WorkflowId: probeName},
	})
	var notFound *serviceerror.NotFound
	if errors.As(serviceerror.FromStatus(serviceerror.ToStatus(err)), &notFound) {
		return nil
	}
	return err
}

func taskQueuesAnswer(ctx context.Context, service workflowservice.WorkflowServiceClient, o Options) error {
	_, err := service.DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
		Namespace:     o.Namespace,
		TaskQueue:     &taskqueuepb.TaskQueue{Name: probeName, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		TaskQueueType: enumspb.TASK_QUEUE_TYPE_WORKFLOW,
	})
	return err
}

// searchAttributesAnswer fails while the frontend does not know one of the names.
func searchAttributesAnswer(ctx context.Context, service workflowservice.WorkflowServiceClient, o Options) error {
	var terms []string
	for _, name := range slices.Sorted(maps.Keys(o.SearchAttributes)) {
		terms = append(terms, fmt.Sprintf("`%s` IS NULL", name))
	}
	_, err := service.ListWorkflowExecutions(ctx, &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: o.Namespace,
		PageSize:  1,
		Query:     strings.Join(terms, " AND "),
	})
	return err
}
