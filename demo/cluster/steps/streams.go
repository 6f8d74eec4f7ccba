package steps

import (
	"context"
	"fmt"
	"time"

	"berth/demo/chat"
	"berth/demo/stage"
)

// window is the time in which something was used: somewhere from first to last.
type window struct{ first, last time.Time }

// longStream is how many tokens a stream has that something happens under: six seconds at the 50 tokens a second of the model.
const longStream = 300

func (s *script) open(ctx context.Context, model string, tokens int) (*chat.Stream, error) {
	return chat.Open(ctx, s.Routers[0].URL(), chat.Request{Model: model, Prompt: "Tell me about ships.", MaxTokens: tokens, IgnoreEOS: true})
}

// whole says what is missing of a stream of n tokens that has been read to its end.
func whole(st *chat.Stream, n int) error {
	if st.Tokens != n || st.Usage != n || st.Finish != "length" {
		return fmt.Errorf("the stream had %d tokens, its usage says %d, its reason %q; want %d and length", st.Tokens, st.Usage, st.Finish, n)
	}
	return nil
}

func (s *script) chat(ctx context.Context) (string, error) {
	began := time.Now()
	s.use.first = began
	st, err := s.open(ctx, chatted, 40)
	if err != nil {
		return "", err
	}
	if err := st.Read(1); err != nil {
		return "", err
	}
	first := time.Since(began)
	if _, err := st.Rest(); err != nil {
		return "", err
	}
	s.use.last = time.Now()
	return fmt.Sprintf("40 tokens, the first after %d ms", first.Milliseconds()), whole(st, 40)
}

// underStream opens a stream, strikes once it flows, reading on meanwhile, and wants the whole of it. strike notes the moment of the blow in struck:
// a stream that had ended by then would prove nothing.
func (s *script) underStream(ctx context.Context, strike func(context.Context) error) error {
	st, err := s.open(ctx, chatted, longStream)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := st.Read(longStream / 10); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- strike(ctx) }()
	_, err = st.Rest()
	s.use.last = time.Now()
	if err := <-done; err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("the stream: %w", err)
	}
	if s.use.last.Before(s.struck) {
		return fmt.Errorf("the stream was over %s before anything was killed", s.struck.Sub(s.use.last))
	}
	return whole(st, longStream)
}

func (s *script) killLeaderDuringStream(ctx context.Context) (string, error) {
	old, err := s.leader(ctx, nil)
	if err != nil {
		return "", err
	}
	var next *stage.Role
	var took time.Duration
	err = s.underStream(ctx, func(ctx context.Context) error {
		next, took, err = s.killLeader(ctx, old)
		return err
	})
	if err != nil {
		return "", err
	}
	if err := s.noteUse(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d tokens and [DONE]; %s leads %.1f s after the death of %s", longStream, next.Name, took.Seconds(), old.Name), nil
}

// noteUse remembers which replicas the two streams went to, once the new leader has been told by router 1.
func (s *script) noteUse(ctx context.Context) error {
	return stage.Until(ctx, 10*time.Second, func(ctx context.Context) error {
		used, err := s.routerUses(ctx)
		if err == nil && len(used) == 0 {
			err = fmt.Errorf("router-1 reports no use after two streams")
		}
		s.used = used
		return err
	})
}

// killLeader kills the leader and waits for the next one.
func (s *script) killLeader(ctx context.Context, old *stage.Role) (next *stage.Role, took time.Duration, err error) {
	began := time.Now()
	if err := old.Kill(); err != nil {
		return nil, 0, err
	}
	s.killed, s.struck = old, time.Now()
	next, err = s.leader(ctx, old)
	return next, time.Since(began), err
}

// killAgentDuringStream kills the agent of the node whose replica is streaming: its shim and its engine go on, and the next agent finds them.
func (s *script) killAgentDuringStream(ctx context.Context) (string, error) {
	var node string
	err := s.underStream(ctx, func(ctx context.Context) error {
		var err error
		if node, err = s.streamingNode(ctx); err != nil {
			return err
		}
		agent, err := stage.Find(s.Agents, node)
		if err != nil {
			return err
		}
		if err := agent.Kill(); err != nil {
			return err
		}
		s.struck = time.Now()
		return agent.Start()
	})
	if err != nil {
		return "", err
	}
	if err := s.nodesReady(ctx); err != nil {
		return "", err
	}
	if err := s.satisfied(ctx, 3); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d tokens and [DONE] from %s; its agent found the engine again", longStream, node), s.notRestarted(ctx)
}

// streamingNode is the node of the replica that has a request in flight.
func (s *script) streamingNode(ctx context.Context) (node string, err error) {
	err = stage.Until(ctx, 4*time.Second, func(ctx context.Context) error {
		all, err := s.ready(ctx)
		if err != nil {
			return err
		}
		for _, r := range all {
			if r.InFlight > 0 {
				node = r.Shards[0].Node
				return nil
			}
		}
		return fmt.Errorf("no replica is listed with a request in flight")
	})
	return node, err
}

// notRestarted checks that every replica's engine is the one that was started first.
func (s *script) notRestarted(ctx context.Context) error {
	all, err := s.ready(ctx)
	for _, r := range all {
		if r.Restarts > 0 {
			return fmt.Errorf("%s of %s was restarted %d times", r.ID, r.Model, r.Restarts)
		}
	}
	return err
}
