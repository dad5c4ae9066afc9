package toolcall_test

import (
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// scheduledWith returns the options of each activity that the workflow schedules.
func scheduledWith(env *agentEnv) *[]workflow.ActivityOptions {
	s := &scheduling{}
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{s}})
	return &s.options
}

type scheduling struct {
	interceptor.WorkerInterceptorBase
	options []workflow.ActivityOptions
}

func (s *scheduling) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &schedulingInbound{interceptor.WorkflowInboundInterceptorBase{Next: next}, s}
}

type schedulingInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	s *scheduling
}

func (i *schedulingInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&schedulingOutbound{interceptor.WorkflowOutboundInterceptorBase{Next: next}, i.s})
}

type schedulingOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	s *scheduling
}

func (o *schedulingOutbound) ExecuteActivity(ctx workflow.Context, activityType string, args ...any) workflow.Future {
	o.s.options = append(o.s.options, workflow.GetActivityOptions(ctx))
	return o.Next.ExecuteActivity(ctx, activityType, args...)
}
