package engine

import (
	"net"
	"strconv"

	"berth/agent"
	"berth/agent/shim"
	"berth/internal/listen"
)

// simulated runs `berth engine`, which speaks vLLM's API and takes vLLM's flags. It uses no GPU.
func simulated() kind {
	v := vllm()
	return kind{name: "sim", spanNodes: true, version: versionQuery{flag: "--version"}, reserved: v.reserved, launch: launchSim}
}

func launchSim(in agent.LaunchInput, cmd []string) (shim.Program, shim.Recipe, error) {
	args := append(cmd, in.Weights, "--served-model-name")
	args = append(args, names(in)...)
	args = append(args, "--tensor-parallel-size", strconv.Itoa(max(1, len(in.GPUs))))
	if multi(in) {
		host, port, err := net.SplitHostPort(in.Master)
		if err != nil {
			return shim.Program{}, shim.Recipe{}, err
		}
		args = append(args, "--nnodes", strconv.Itoa(len(in.Hosts)), "--node-rank", strconv.Itoa(in.Order.Rank), "--master-addr", host, "--master-port", port)
		if exposed, err := listen.Exposed(in.Master); err == nil && exposed {
			args = append(args, listen.InsecureFlag) // the ranks of a real engine meet in the clear, too
		}
	}
	p := shim.Program{}
	if headless(in) {
		args = append(args, "--headless")
	} else {
		args = append(args, "--host", "127.0.0.1", "--port", strconv.Itoa(in.Port), "--api-key", shim.PlaceAPIKey)
		p.Engine = local(in)
	}
	p.Args = append(args, in.Order.Spec.Engine.Args...)
	return p, recipe(in, false, "vllm:prompt_tokens_total", "vllm:generation_tokens_total"), nil
}
