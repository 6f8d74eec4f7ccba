package engine

import (
	"net"
	"strconv"

	"berth/agent"
	"berth/agent/shim"
)

// vllm runs `vllm serve`. Over several nodes every rank runs the same command with the global sizes, its rank and where rank 0 is; ranks above 0
// are headless (vLLM, docs/serving/parallelism_scaling: multi-node without Ray).
func vllm() kind {
	return kind{
		name: "vllm", spanNodes: true, program: []string{"vllm", "serve"},
		version: versionQuery{flag: "--version"},
		reserved: []string{"--host", "--port", "--uds", "--served-model-name", "--model", "--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp",
			"--nnodes", "--node-rank", "--master-addr", "--master-port", "--headless", "--api-key", "--distributed-executor-backend", "--device-ids"},
		abbreviates: true, whole: []string{"device"},
		launch: launchVLLM,
	}
}

func launchVLLM(in agent.LaunchInput, cmd []string) (shim.Program, shim.Recipe, error) {
	args := append(cmd, in.Weights, "--served-model-name")
	args = append(args, names(in)...)
	args = append(args, "--tensor-parallel-size", strconv.Itoa(len(in.GPUs)))
	env := append(cuda(in), "VLLM_HOST_IP="+in.BindHost)
	if multi(in) {
		host, port, err := net.SplitHostPort(in.Master)
		if err != nil {
			return shim.Program{}, shim.Recipe{}, err
		}
		args = append(args, "--pipeline-parallel-size", strconv.Itoa(len(in.Hosts)), "--distributed-executor-backend", "mp",
			"--nnodes", strconv.Itoa(len(in.Hosts)), "--node-rank", strconv.Itoa(in.Order.Rank), "--master-addr", host, "--master-port", port)
	}
	if share := shareOf(in); share > 0 && !has(in, "--gpu-memory-utilization") {
		args = append(args, "--gpu-memory-utilization", strconv.FormatFloat(share, 'f', -1, 64))
	}
	p := shim.Program{Env: env}
	if headless(in) {
		args = append(args, "--headless")
	} else {
		args = append(args, "--host", "127.0.0.1", "--port", strconv.Itoa(in.Port))
		p.Engine = local(in)
		p.Env = append(p.Env, "VLLM_API_KEY="+shim.PlaceAPIKey) // in the environment: arguments can be read by everyone on the machine
	}
	p.Args = append(args, in.Order.Spec.Engine.Args...)
	embeds := sets(in, "--task", "embed") || sets(in, "--runner", "pooling")
	return p, recipe(in, embeds, "vllm:prompt_tokens_total", "vllm:generation_tokens_total"), nil
}
