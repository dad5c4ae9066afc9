package app

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/toolbreaker/toolbreaker/breaker"
	"github.com/toolbreaker/toolbreaker/interceptor"
	"github.com/toolbreaker/toolbreaker/worker/agent"
)

// checkModels tells whether models can be asked at all. Nothing but their names
// sends a customer's words to a provider: a key that happens to be in the
// environment does not.
func checkModels(names []string) error {
	if len(names) > 0 && os.Getenv("OPENAI_BASE_URL") == "" && os.Getenv("OPENAI_API_KEY") == "" {
		return errors.New("a model needs OPENAI_BASE_URL, OPENAI_API_KEY or both")
	}
	seen := map[string]bool{}
	for _, name := range names {
		dependency := modelDependency(name)
		if err := breaker.ValidateName(dependency); name == "" || err != nil {
			return fmt.Errorf("model %q: its breaker cannot be named after it", name)
		}
		if seen[dependency] {
			return fmt.Errorf("model %q: is named twice", name)
		}
		seen[dependency] = true
	}
	return nil
}

// models are the agent's, best first.
func (a *App) models() []agent.Model {
	if len(a.Options.Models) == 0 {
		return []agent.Model{agent.Scripted{Think: a.Scaled(1200 * time.Millisecond)}}
	}
	var models []agent.Model
	for _, name := range a.Options.Models {
		models = append(models, agent.NewOpenAI(name))
	}
	return models
}

// modelDependencies guard each model by itself: one may be down, or out of quota,
// while another of the same provider answers.
func (a *App) modelDependencies() []interceptor.Dependency {
	// A model takes longer than a carrier: half of what the agent gives it.
	config := a.BreakerConfig()
	config.Latency, config.ProbeInterval = a.Scaled(30*time.Second), a.Scaled(5*time.Second)
	var dependencies []interceptor.Dependency
	for place, name := range a.Options.Models {
		dependencies = append(dependencies, interceptor.Dependency{
			Name:    modelDependency(name),
			Tools:   interceptor.Tools(agent.Rung(place)),
			Breaker: config,
			Probe:   interceptor.Synthetic(agent.Rung(place), agent.Probe()),
		})
	}
	return dependencies
}

// modelDependency is a model's name as a breaker's; many have an owner before a
// slash.
func modelDependency(name string) string { return "model-" + strings.ReplaceAll(name, "/", ":") }
