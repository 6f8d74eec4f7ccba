// Command cluster is the demonstration of Berth: a whole cluster of separate processes on loopback does the main job, step by step, and each step
// is checked. It ends with 0 only if every check held, and leaves nothing behind, also when it is interrupted.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"berth/demo/cluster/steps"
)

func main() {
	bin := flag.String("bin", "bin", "folder with berth and berthctl")
	examples := flag.String("examples", "examples/sim", "folder with the model files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := steps.Run(ctx, steps.Config{Bin: *bin, Examples: *examples, Out: os.Stdout}); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}
