package steps

import (
	"context"
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
	examples string

	killed *stage.Role // the peer that is down
	struck time.Time   // when a process was last killed
	use    window      // when router-1 was used
	used   []string    // replicas that router-1 sent requests to
	boot   uint64      // of router-1 since it was restarted
}

func (s *script) steps() []stage.Step {
	return []stage.Step{
		{Title: "three peers elect a leader", Do: s.elect},
		{Title: "four nodes are found through gossip", Do: s.findNodes},
		{Title: "three models become ready, one of them over two nodes", Do: s.applyModels},
		{Title: "a chat is streamed through router 1", Do: s.chat},
		{Title: "the leader is killed during a stream, and the stream ends whole", Do: s.killLeaderDuringStream},
		{Title: "status is the same from each surviving peer", Do: s.sameStatus},
		{Title: "idle times: those in use have one, a replica nobody asked for has none", Do: s.checkIdle},
		{Title: "router 1 starts again: it reports nothing that it has not served, and no idle time jumps", Do: s.restartRouter},
		{Title: "the killed peer comes back and catches up", Do: s.bringPeerBack},
		{Title: "the leader is killed once more: idle times stay what they were", Do: s.killLeaderAgain},
		{Title: "an agent is killed and started again under a stream, which goes on", Do: s.killAgentDuringStream},
		{Title: "a model at zero is woken by a request", Do: s.wake},
		{Title: "a snapshot is saved, a model deleted, the snapshot restored: the model is back", Do: s.snapshot},
		{Title: "every model is deleted, every engine ends", Do: s.deleteAll},
	}
}

// Run runs the demonstration and prints each step. It fails at the first check that does not hold; nothing that it started is left when it returns.
func Run(ctx context.Context, cfg Config) error {
	examples, err := filepath.Abs(cfg.Examples)
	if err != nil {
		return err
	}
	st, err := stage.New(stage.Config{Bin: cfg.Bin, Peers: 3, Routers: 2, Nodes: []stage.Node{
		{Name: "gpu-01", Fabric: "fa", GPUs: 8}, {Name: "gpu-02", Fabric: "fa", GPUs: 8},
		{Name: "gpu-03", Fabric: "fb", GPUs: 8}, {Name: "gpu-04", Fabric: "fb", GPUs: 8},
	}})
	if err != nil {
		return err
	}
	s := &script{Stage: st, examples: examples}
	return st.Play(ctx, cfg.Out, s.steps())
}
