package steps

import (
	"context"
	"fmt"
	"strings"
	"time"

	"berth/admin/client"
	"berth/demo/stage"
	"berth/fleet"
	"berth/fleet/wire"
)

const (
	wide    = "deepseek-ai/DeepSeek-R1" // over two nodes
	chatted = "llama-8b"                // the alias that clients send
	unasked = "BAAI/bge-small-en-v1.5"  // that no step sends a request to
)

func (s *script) elect(ctx context.Context) (string, error) {
	if err := s.Start(s.Peers); err != nil {
		return "", err
	}
	leader, err := s.leader(ctx, nil)
	if err != nil {
		return "", err
	}
	err = stage.Until(ctx, 10*time.Second, func(ctx context.Context) error {
		peers, err := stage.JSON[[]wire.PeerView](ctx, s.Stage, "peers")
		if err != nil {
			return err
		}
		states := map[string]int{}
		for _, p := range peers {
			states[p.State]++
			if !p.Voter {
				return fmt.Errorf("%s is no voter", p.ID)
			}
		}
		if states["leader"] != 1 || states["follower"] != 2 {
			return fmt.Errorf("berthctl peers lists %v; want a leader and two followers", states)
		}
		return nil
	})
	return leader.Name + " leads", err
}

// leader waits until every peer that runs names the same running leader, other than not, and returns it.
func (s *script) leader(ctx context.Context, not *stage.Role) (*stage.Role, error) {
	var leader *stage.Role
	err := stage.Until(ctx, 30*time.Second, func(ctx context.Context) error {
		leader = nil
		for _, p := range stage.Alive(s.Peers) {
			name, err := s.leaderBy(ctx, p)
			if err != nil {
				return err
			}
			if name == "" || not != nil && name == not.Name || leader != nil && name != leader.Name {
				return fmt.Errorf("%s says that %q leads", p.Name, name)
			}
			if leader, err = stage.Find(s.Peers, name); err != nil {
				return err
			}
		}
		return nil
	})
	return leader, err
}

func (s *script) leaderBy(ctx context.Context, p *stage.Role) (string, error) {
	c, err := s.Client(p)
	if err != nil {
		return "", err
	}
	st, _, err := c.Status(ctx, client.ReadOptions{Consistency: "stale"})
	return st.Leader, err
}

// findWithin is the bound that the nodes keep, from the start of the last one.
const findWithin = 2 * time.Second

func (s *script) findNodes(ctx context.Context) (string, error) {
	if err := s.Start(s.Routers); err != nil {
		return "", err
	}
	if err := s.Start(s.Agents); err != nil {
		return "", err
	}
	began := time.Now()
	err := stage.Until(ctx, 15*time.Second, func(ctx context.Context) error {
		nodes, err := stage.JSON[[]wire.NodeView](ctx, s.Stage, "nodes")
		if err == nil && len(nodes) != len(s.Agents) {
			err = fmt.Errorf("berthctl nodes lists %d of %d", len(nodes), len(s.Agents))
		}
		return err
	})
	found := time.Since(began)
	if err == nil && found > findWithin {
		err = fmt.Errorf("they were found after %.1f s; want %s", found.Seconds(), findWithin)
	}
	if err != nil {
		return "", err
	}
	err = s.nodesReady(ctx)
	return fmt.Sprintf("in the list after %.1f s, 32 cards ready after %.1f s", found.Seconds(), time.Since(began).Seconds()), err
}

func (s *script) nodesReady(ctx context.Context) error {
	return stage.Until(ctx, 15*time.Second, func(ctx context.Context) error {
		nodes, err := stage.JSON[[]wire.NodeView](ctx, s.Stage, "nodes")
		if err != nil {
			return err
		}
		cards := 0
		for _, n := range nodes {
			if n.State != "ready" {
				return fmt.Errorf("%s is %s: %s", n.Name, n.State, n.Reason)
			}
			cards += n.GPUsTotal
		}
		if cards != 32 {
			return fmt.Errorf("%d cards are listed; want 32", cards)
		}
		return nil
	})
}

func (s *script) applyModels(ctx context.Context) (string, error) {
	if _, err := s.Do(ctx, "model", "apply", "-f", s.examples); err != nil {
		return "", err
	}
	if err := s.satisfied(ctx, 3); err != nil {
		return "", err
	}
	replicas, err := stage.JSON[[]wire.ReplicaView](ctx, s.Stage, "replicas", "--model", wide)
	if err != nil {
		return "", err
	}
	if len(replicas) != 1 || len(replicas[0].Shards) != 2 || replicas[0].Shards[0].Node == replicas[0].Shards[1].Node {
		return "", fmt.Errorf("%s has the replicas %+v; want one over two nodes", wide, replicas)
	}
	again, err := s.Do(ctx, "model", "apply", "-f", s.examples)
	if err == nil && strings.Count(again, "unchanged") != 3 {
		err = fmt.Errorf("applying the same files again says %q; want unchanged three times", again)
	}
	return fmt.Sprintf("%s spans %s and %s", wide, replicas[0].Shards[0].Node, replicas[0].Shards[1].Node), err
}

// satisfied waits until n models have all the replicas that they want, and no more replicas are on their way.
func (s *script) satisfied(ctx context.Context, n int) error {
	return stage.Until(ctx, 60*time.Second, func(ctx context.Context) error {
		models, err := stage.JSON[[]wire.ModelView](ctx, s.Stage, "models")
		if err != nil {
			return err
		}
		if len(models) != n {
			return fmt.Errorf("there are %d models; want %d", len(models), n)
		}
		for _, m := range models {
			if m.Ready < m.Want || m.Starting > 0 {
				return fmt.Errorf("%s is %s with %d of %d replicas ready", m.Spec.Name, m.State, m.Ready, m.Want)
			}
		}
		return nil
	})
}

// ready lists the ready replicas.
func (s *script) ready(ctx context.Context) ([]wire.ReplicaView, error) {
	all, err := stage.JSON[[]wire.ReplicaView](ctx, s.Stage, "replicas")
	var out []wire.ReplicaView
	for _, r := range all {
		if r.State == fleet.Ready {
			out = append(out, r)
		}
	}
	return out, err
}
