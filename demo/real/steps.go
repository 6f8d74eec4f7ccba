package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"berth/demo/chat"
	"berth/demo/stage"
	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/procs"
)

const (
	model  = "demo/tiny"
	tokens = 24 // of one answer
)

// spec is a model file for the weights at a path.
const spec = `version: 1
kind: model
name: demo/tiny
engine: {driver: llamacpp, weights: %s, args: ["-c", "512"]}
placement: {gpus_per_node: 1, classes: [h100-sxm-80gb]}
replicas: {min: 2, max: 2}
start: {timeout: 2m, max_restarts: 5}
drain: {deadline: 10s, minimum: 1s}
`

type script struct {
	*stage.Stage
	llama  string
	killed string // the replica whose engine was killed
}

func (s *script) steps() []stage.Step {
	return []stage.Step{
		{Title: "a peer, an agent with two cards and a router start", Do: s.begin},
		{Title: "a tiny model is written, and two replicas of it become ready", Do: s.apply},
		{Title: "both answer chats with real tokens through the router", Do: s.chats},
		{Title: "the engine of one is killed: the next request is answered by the other", Do: s.killEngine},
		{Title: "the killed one comes back and answers", Do: s.comesBack},
		{Title: "the model is deleted, every engine ends", Do: s.end},
	}
}

func (s *script) begin(ctx context.Context) (string, error) {
	for _, roles := range [][]*stage.Role{s.Peers, s.Routers, s.Agents} {
		if err := s.Start(roles); err != nil {
			return "", err
		}
	}
	err := stage.Until(ctx, 30*time.Second, func(ctx context.Context) error {
		nodes, err := stage.JSON[[]wire.NodeView](ctx, s.Stage, "nodes")
		if err == nil && (len(nodes) != 1 || nodes[0].State != "ready") {
			err = fmt.Errorf("berthctl nodes lists %+v", nodes)
		}
		return err
	})
	return "the node is ready", err
}

func (s *script) apply(ctx context.Context) (string, error) {
	weights := filepath.Join(s.Agents[0].ModelRoot(), "tiny.gguf")
	if out, err := exec.CommandContext(ctx, "node", filepath.Join(s.llama, "make-gguf.mjs"), weights).CombinedOutput(); err != nil {
		return "", fmt.Errorf("write %s: %w: %s", weights, err, out)
	}
	a, err := s.Ctl(ctx, fmt.Sprintf(spec, weights), "model", "apply", "-f", "-")
	if err == nil && a.Code != 0 {
		err = fmt.Errorf("berthctl model apply ended with %d: %s", a.Code, a.Err)
	}
	if err != nil {
		return "", err
	}
	ids, err := s.twoReady(ctx)
	return strings.Join(ids, " and "), err
}

// twoReady waits until both replicas are ready and returns their ids.
func (s *script) twoReady(ctx context.Context) (ids []string, err error) {
	err = stage.Until(ctx, 60*time.Second, func(ctx context.Context) error {
		all, err := stage.JSON[[]wire.ReplicaView](ctx, s.Stage, "replicas")
		ids = nil
		for _, r := range all {
			if r.State == fleet.Ready {
				ids = append(ids, r.ID)
			} else {
				err = fmt.Errorf("%s is %s: %s", r.ID, r.State, r.Reason)
			}
		}
		if err == nil && len(ids) != 2 {
			err = fmt.Errorf("%d replicas are ready", len(ids))
		}
		return err
	})
	return ids, err
}

// ask streams one answer and returns how many tokens it had.
func (s *script) ask(ctx context.Context) (int, error) {
	st, err := chat.Open(ctx, s.Routers[0].URL(), chat.Request{Model: model, Prompt: "Ships", MaxTokens: tokens})
	if err != nil {
		return 0, err
	}
	_, err = st.Rest()
	if err == nil && st.Usage < 1 {
		err = fmt.Errorf("the engine says that it made %d tokens", st.Usage)
	}
	return st.Usage, err
}

// chats asks until both replicas have answered.
func (s *script) chats(ctx context.Context) (string, error) {
	made, asked := 0, 0
	err := stage.Until(ctx, 30*time.Second, func(ctx context.Context) error {
		n, err := s.ask(ctx)
		made, asked = made+n, asked+1
		if err != nil {
			return err
		}
		r, err := s.uses(ctx)
		if err == nil && len(r) != 2 {
			err = fmt.Errorf("after %d requests the router has used %d of 2 replicas", asked, len(r))
		}
		return err
	})
	return fmt.Sprintf("%d chats, %d tokens, each whole", asked, made), err
}

func (s *script) uses(ctx context.Context) (map[string]wire.Use, error) {
	r, err := stage.JSON[wire.RouterView](ctx, s.Stage, "router", "show", "router-1")
	return r.Uses, err
}

// engines lists the engines by the replica that their environment names.
func (s *script) engines() map[string]procs.Found {
	out := map[string]procs.Found{}
	for _, p := range s.Marked() {
		if id := p.Env("BERTH_REPLICA"); id != "" && strings.Contains(strings.Join(p.Command, " "), "server.mjs") {
			out[id] = p
		}
	}
	return out
}

func (s *script) killEngine(ctx context.Context) (string, error) {
	var victim procs.Found
	for id, p := range s.engines() {
		s.killed, victim = id, p
	}
	if s.killed == "" {
		return "", fmt.Errorf("no engine runs; these do: %v", s.Marked())
	}
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		return "", fmt.Errorf("kill %s: %w", victim, err)
	}
	began := time.Now()
	n, err := s.ask(ctx)
	if err != nil {
		return "", fmt.Errorf("the request after the death of %s: %w", s.killed, err)
	}
	return fmt.Sprintf("process %d of %s was killed; %d tokens came %.1f s later", victim.PID, s.killed, n, time.Since(began).Seconds()), nil
}

func (s *script) comesBack(ctx context.Context) (string, error) {
	began := time.Now()
	var back wire.ReplicaView
	err := stage.Until(ctx, 60*time.Second, func(ctx context.Context) error {
		r, err := stage.JSON[wire.ReplicaView](ctx, s.Stage, "replica", "show", s.killed)
		if err == nil && (r.State != fleet.Ready || r.Restarts < 1) {
			err = fmt.Errorf("%s is %s after %d restarts: %s", s.killed, r.State, r.Restarts, r.Reason)
		}
		back = r
		return err
	})
	if err != nil {
		return "", err
	}
	ready := time.Since(began)
	if err := stage.Until(ctx, 30*time.Second, s.killedAnswers); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s was ready again after %.1f s, restart %d", s.killed, ready.Seconds(), back.Restarts), nil
}

// killedAnswers asks once and looks whether it was the replica that had been killed that answered.
func (s *script) killedAnswers(ctx context.Context) error {
	before, err := s.uses(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := s.ask(ctx); err != nil {
		return err
	}
	return stage.Until(ctx, 3*time.Second, func(ctx context.Context) error { // a report a second
		now, err := s.uses(ctx)
		if err == nil && now[s.killed].Age >= before[s.killed].Age+time.Since(began).Seconds()-0.5 {
			err = fmt.Errorf("%s was last used %.1f s ago", s.killed, now[s.killed].Age)
		}
		return err
	})
}

func (s *script) end(ctx context.Context) (string, error) {
	if _, err := s.Do(ctx, "model", "delete", model, "--yes"); err != nil {
		return "", err
	}
	return "none is left", stage.Until(ctx, 30*time.Second, func(context.Context) error {
		if left := s.engines(); len(left) > 0 {
			return fmt.Errorf("still running: %v", left)
		}
		return nil
	})
}
