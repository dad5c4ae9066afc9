package probeworkflow

const (
	PublishActivity          = publishActivity
	PollActivity             = pollActivity
	SearchAttributesActivity = searchAttributesActivity
)

type PollInput = pollInput
