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

// checkModels returns an error for models that cannot be used. Only named models
// send customer text to a provider: a key in the environment alone does not.
func checkModels(names []string) error {
	if len(names) > 0 && os.Getenv("OPENAI_BASE_URL") == "" && os.Getenv("OPENAI_API_KEY") == "" {
		return errors.New("models need an endpoint: set OPENAI_BASE_URL, OPENAI_API_KEY or both")
	}
	seen := map[string]bool{}
	for _, name := range names {
		dependency := modelDependency(name)
		if err := breaker.ValidateName(dependency); name == "" || err != nil {
			return fmt.Errorf("model %q: the name is not valid for a breaker", name)
		}
		if seen[dependency] {
			return fmt.Errorf("model %q is given twice", name)
		}
		seen[dependency] = true
	}
	return nil
}

// models returns the agent's models, best first.
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

// modelDependencies returns one dependency per model: one model may be down or out
// of quota while another model of the same provider works.
func (a *App) modelDependencies() []interceptor.Dependency {
	// Half of the agent's timeout for a model.
	config := a.BreakerConfig()
	config.Latency, config.ProbeInterval = a.Scaled(30*time.Second), a.Scaled(5*time.Second)
	var dependencies []interceptor.Dependency
	for i, name := range a.Options.Models {
		dependencies = append(dependencies, interceptor.Dependency{
			Name:    modelDependency(name),
			Tools:   interceptor.Tools(agent.ModelActivity(i)),
			Breaker: config,
			Probe:   interceptor.Synthetic(agent.ModelActivity(i), agent.Probe()),
		})
	}
	return dependencies
}

// modelDependency returns the name of the model's dependency. Many model names have
// an owner and a slash, which a dependency's name must not have.
func modelDependency(name string) string { return "model-" + strings.ReplaceAll(name, "/", ":") }
