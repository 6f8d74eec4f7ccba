package engine

import (
	"strconv"
	"time"

	"berth/agent"
	"berth/agent/shim"
)

// sglang runs `python3 -m sglang.launch_server`. Over several nodes every rank has the total tensor size, its rank and rank 0's address; rank 0
// alone serves HTTP (docs.sglang.io, multi-node deployment).
func sglang() kind {
	return kind{
		name: "sglang", spanNodes: true, program: []string{"python3", "-m", "sglang.launch_server"},
		version: versionQuery{module: "sglang"},
		reserved: []string{"--host", "--port", "--served-model-name", "--model-path", "--model", "--tp", "--tp-size", "--tensor-parallel-size",
			"--dist-init-addr", "--nnodes", "--node-rank", "--api-key", "--base-gpu-id"},
		abbreviates: true,
		launch:      launchSGLang,
	}
}

func launchSGLang(in agent.LaunchInput, cmd []string) (shim.Program, shim.Recipe, error) {
	// The served name must be said: SGLang's own default is the path of the weights. It takes one name and does not check what a request sends.
	args := append(cmd, "--model-path", in.Weights, "--served-model-name", in.Order.Spec.Name, "--host", "127.0.0.1", "--port", strconv.Itoa(in.Port),
		"--tp", strconv.Itoa(len(in.GPUs)*len(in.Hosts)), "--enable-metrics")
	if multi(in) {
		args = append(args, "--dist-init-addr", in.Master, "--nnodes", strconv.Itoa(len(in.Hosts)), "--node-rank", strconv.Itoa(in.Order.Rank))
	}
	if share := shareOf(in); share > 0 && !has(in, "--mem-fraction-static") {
		args = append(args, "--mem-fraction-static", strconv.FormatFloat(share, 'f', -1, 64))
	}
	p := shim.Program{Env: append(cuda(in), "SGLANG_HOST_IP="+in.BindHost)}
	if !headless(in) {
		p.Engine = local(in)
		args = append(args, "--api-key", shim.PlaceAPIKey) // SGLang has no variable for it; the key is new at every start
	}
	p.Args = append(args, in.Order.Spec.Engine.Args...)
	// A healthy probe of SGLang generates a token and takes a second or more.
	r := recipe(in, has(in, "--is-embedding"), "sglang:prompt_tokens_total", "sglang:generation_tokens_total")
	return p, slower(r, 2*time.Second), nil
}
