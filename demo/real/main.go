// Command real is the demonstration of Berth with real tokens: llama.cpp, as the npm package node-llama-cpp brings it, behind a small server in
// demo/llamacpp, with a tiny model that a script writes. Two replicas answer through the router; the engine of one is killed, the other one goes on
// answering, and the killed one comes back. It needs Node and npm, and leaves nothing behind but node_modules.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"berth/demo/stage"
)

func main() {
	bin := flag.String("bin", "bin", "folder with berth and berthctl")
	llama := flag.String("llamacpp", "demo/llamacpp", "folder with the server and the script that writes the model")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin, *llama); err != nil {
		fmt.Fprintln(os.Stderr, "demo-llamacpp:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, llama string) error {
	server, err := prepareNode(ctx, llama)
	if err != nil {
		return err
	}
	agent := fmt.Sprintf("engines: {llamacpp: {command: [node, %s], allow_args: [\"*\"], version: \"1.0\"}}\n", server)
	st, err := stage.New(stage.Config{Bin: bin, Peers: 1, Routers: 1, Nodes: []stage.Node{{Name: "gpu-01", Fabric: "fa", GPUs: 2, More: agent, Roots: true}}})
	if err != nil {
		return err
	}
	s := &script{Stage: st, llama: llama}
	return st.Play(ctx, os.Stdout, s.steps())
}
