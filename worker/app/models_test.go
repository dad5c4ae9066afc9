package app_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/toolbreaker/toolbreaker/worker/app"
)

func TestStart_InvalidModels(t *testing.T) {
	t.Setenv("OPENAI_BASE_URL", "")
	t.Setenv("OPENAI_API_KEY", "")
	_, err := app.Start(t.Context(), app.Options{Models: []string{"one"}})
	assert.ErrorContains(t, err, "set OPENAI_BASE_URL, OPENAI_API_KEY or both")

	t.Setenv("OPENAI_API_KEY", "sk-test")
	for message, models := range map[string][]string{
		`model "one" is given twice`:                       {"one", "two", "one"},
		`model "an/one" is given twice`:                    {"an:one", "an/one"},
		`model "": the name is not valid for a breaker`:    {"one", ""},
		`model "a b": the name is not valid for a breaker`: {"a b"},
		`x": the name is not valid for a breaker`:          {strings.Repeat("x", 100)},
	} {
		_, err := app.Start(t.Context(), app.Options{Models: models})
		assert.ErrorContains(t, err, message)
	}
}
