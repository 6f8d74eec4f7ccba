package engine

import (
	"encoding/json"
	"time"

	"berth/agent"
	"berth/agent/shim"
	"berth/fleet"
)

// recipe is how to find out that an engine serves: the health route, then one real token. An engine that only embeds is asked for an embedding.
func recipe(in agent.LaunchInput, embeds bool, progress ...string) shim.Recipe {
	if headless(in) {
		return shim.Recipe{} // a headless rank serves nothing: it is judged by its process, and by rank 0
	}
	path, body := "/v1/completions", map[string]any{"model": in.Order.Spec.Name, "prompt": "Hi", "max_tokens": 1, "temperature": 0}
	if embeds {
		path, body = "/v1/embeddings", map[string]any{"model": in.Order.Spec.Name, "input": "Hi"}
	}
	data, _ := json.Marshal(body) // strings and numbers
	return shim.Recipe{Health: "/health", Token: &shim.Probe{Path: path, Body: data}, Progress: progress}
}

// slower sets a recipe's pace for engines whose health route makes a token itself and takes its time.
func slower(r shim.Recipe, every time.Duration) shim.Recipe {
	if r.Health != "" {
		r.Every = fleet.Duration(every)
	}
	return r
}
