package app_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/toolbreaker/toolbreaker/worker/app"
)

func TestStart_RefusesModelsThatCannotBeAsked(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "")
	t.Setenv("OPENAI_API_KEY", "")
	_, err := app.Start(t.Context(), app.Options{Models: []string{"one"}})
	assert.ErrorContains(t, err, "OPENAI_BASE_URL, OPENAI_API_KEY")

	t.Setenv("OPENAI_API_KEY", "sk-test")
	for says, models := range map[string][]string{
		`model "one": is named twice`:              {"one", "two", "one"},
		`model "an/one": is named twice`:           {"an:one", "an/one"},
		`model "": its breaker cannot be named`:    {"one", ""},
		`model "a b": its breaker cannot be`:       {"a b"},
		`x": its breaker cannot be named after it`: {strings.Repeat("x", 100)},
	} {
		_, err := app.Start(t.Context(), app.Options{Models: models})
		assert.ErrorContains(t, err, says)
	}
}
