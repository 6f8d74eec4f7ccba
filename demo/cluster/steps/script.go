package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"berth/demo/stage"
)

// Config says where the programs and the examples are.
type Config struct {
	Bin      string // folder with berth and berthctl
	Examples string // folder with the model files
	Out      io.Writer
}

// script is one run of the demonstration: the cluster, and what earlier steps leave for later ones.
type script struct {
	*stage.Stage
	out      io.Writer
	examples string

	killed *stage.Role // the peer that is down
	struck time.Time   // when a process was last killed
	use    window      // when router-1 was used
	used   []string    // replicas that router-1 sent requests to
	saved  string      // snapshot file
}

// step is one line of the demonstration. do returns what was found, in a few words.
type step struct {
	title string
	do    func(context.Context) (string, error)
}

func (s *script) steps() []step {
	return []step{
		{"three peers elect a leader", s.elect},
		{"four nodes are found through gossip", s.findNodes},
		{"three models become ready, one of them over two nodes", s.applyModels},
		{"a chat is streamed through router 1", s.chat},
		{"the leader is killed during a stream, and the stream ends whole", s.killLeaderDuringStream},
		{"status is the same from each surviving peer", s.sameStatus},
		{"idle times: those in use have one, a replica nobody asked for has none", s.checkIdle},
		{"router 1 starts again: it reports nothing that it has not served, and no idle time jumps", s.restartRouter},
		{"the killed peer comes back and catches up", s.bringPeerBack},
		{"the leader is killed once more: idle times stay what they were", s.killLeaderAgain},
		{"an agent is killed and started again under a stream, which goes on", s.killAgentDuringStream},
		{"a model at zero is woken by a request", s.wake},
		{"a snapshot is saved, a model deleted, the snapshot restored: the model is back", s.snapshot},
		{"every model is deleted, every engine ends", s.deleteAll},
	}
}

// Run runs the demonstration and prints one line a step. It fails at the first check that does not hold, with the last lines of every process;
// whatever happens, nothing that it started is left when it returns.
func Run(ctx context.Context, cfg Config) (err error) {
	examples, err := filepath.Abs(cfg.Examples)
	if err != nil {
		return err
	}
	began := time.Now()
	st, err := stage.New(stage.Config{Bin: cfg.Bin, Peers: 3, Routers: 2, Nodes: []stage.Node{
		{Name: "gpu-01", Fabric: "fa", GPUs: 8}, {Name: "gpu-02", Fabric: "fa", GPUs: 8},
		{Name: "gpu-03", Fabric: "fb", GPUs: 8}, {Name: "gpu-04", Fabric: "fb", GPUs: 8},
	}})
	if err != nil {
		return err
	}
	s := &script{Stage: st, out: cfg.Out, examples: examples}
	err = s.run(ctx)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(cfg.Out, "\n%s\n", st.Logs(logLines))
	}
	if left := s.clear(); left != nil || err != nil {
		return errors.Join(err, left)
	}
	fmt.Fprintf(cfg.Out, "\nEvery check held. %.1f s in all.\n", time.Since(began).Seconds())
	return nil
}

// logLines is how much of each process's log a failure shows.
const logLines = 12

func (s *script) run(ctx context.Context) error {
	for i, st := range s.steps() {
		began := time.Now()
		found, err := st.do(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted in step %d, %s", i+1, st.title)
		}
		mark := "ok"
		if err != nil {
			mark, found = "FAILED", err.Error()
		}
		fmt.Fprintf(s.out, "%-6s %2d  %s  (%.1f s)\n", mark, i+1, st.title, time.Since(began).Seconds())
		fmt.Fprintf(s.out, "           %s\n", found)
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, st.title, err)
		}
	}
	return nil
}

// clear ends all processes. That a process had to be killed, or was left by its parent, is a failure of the demonstration as well.
func (s *script) clear() error {
	began := time.Now()
	if err := s.Close(stage.Patience); err != nil {
		return fmt.Errorf("cleaning up: %w", err)
	}
	fmt.Fprintf(s.out, "%-6s     no process and no folder is left  (%.1f s)\n", "ok", time.Since(began).Seconds())
	return nil
}
