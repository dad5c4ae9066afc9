package member

var (
	AnswerDelay = answerDelay
	ReportDelay = reportDelay
	HintBackoff = hintBackoff
)
