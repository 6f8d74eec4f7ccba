package engine

import (
	"errors"
	"path/filepath"

	"berth/agent"
	"berth/agent/shim"
)

// llamacpp runs llama.cpp's `llama-server`, which listens on a unix socket when --host ends in .sock (tools/server/README.md).
func llamacpp() kind {
	return kind{
		name: "llamacpp", program: []string{"llama-server"},
		version:  versionQuery{flag: "--version"},
		reserved: []string{"--host", "--port", "-m", "--model", "--alias", "-a", "--api-key", "--api-key-file", "-hf", "--hf-repo"},
		launch:   launchLlama,
	}
}

func launchLlama(in agent.LaunchInput, cmd []string) (shim.Program, shim.Recipe, error) {
	if multi(in) {
		return shim.Program{}, shim.Recipe{}, errors.New("llama.cpp cannot span nodes; use placement.nodes: 1")
	}
	socket := filepath.Join(in.Sockets, in.Order.Replica+".sock")
	args := append(cmd, "-m", in.Weights, "--alias", in.Order.Spec.Name, "--host", socket, "--metrics")
	if len(in.GPUs) > 0 && !has(in, "-ngl", "--gpu-layers", "--n-gpu-layers") {
		args = append(args, "-ngl", "999") // all layers on the cards that were claimed for them
	}
	p := shim.Program{
		Args:   append(args, in.Order.Spec.Engine.Args...),
		Env:    append(cuda(in), "LLAMA_API_KEY="+shim.PlaceAPIKey),
		Engine: "unix:" + socket,
	}
	r := recipe(in, has(in, "--embeddings", "--embedding"), "llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total")
	return p, r, nil
}
