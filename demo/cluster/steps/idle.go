package steps

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"berth/demo/stage"
	"berth/fleet/wire"
)

// slack is how much an idle time may be off: a report is a second old at most, and the machine may be busy.
const slack = 4 * time.Second

func (s *script) router1(ctx context.Context) (wire.RouterView, error) {
	return stage.JSON[wire.RouterView](ctx, s.Stage, "router", "show", "router-1")
}

// routerUses are the replicas that router 1 itself reports as used since its start.
func (s *script) routerUses(ctx context.Context) ([]string, error) {
	r, err := s.router1(ctx)
	return slices.Sorted(maps.Keys(r.Uses)), err
}

// checkIdle compares every ready replica's IDLE with what this program knows: the used ones were used in a known window, the others never.
func (s *script) checkIdle(ctx context.Context) (string, error) {
	var found string
	err := stage.Until(ctx, 15*time.Second, func(ctx context.Context) error {
		all, err := s.ready(ctx)
		if err != nil {
			return err
		}
		for _, r := range all {
			if err := s.checkReplica(r); err != nil {
				return err
			}
			if slices.Contains(s.used, r.ID) {
				found = fmt.Sprintf("%s is idle for %.0f s", r.ID, r.IdleSeconds)
			}
		}
		table, err := s.tableIdle(ctx)
		if err != nil {
			return err
		}
		if cell := table[unasked]; cell != "-" {
			return fmt.Errorf("berthctl replicas shows the idle time %q for %s, which nobody ever asked; want -", cell, unasked)
		}
		return nil
	})
	return found + "; " + unasked + " shows -", err
}

func (s *script) checkReplica(r wire.ReplicaView) error {
	if !slices.Contains(s.used, r.ID) {
		if r.IdleSeconds != -1 {
			return fmt.Errorf("%s of %s was never used and has an idle time of %.1f s; want -1", r.ID, r.Model, r.IdleSeconds)
		}
		return nil
	}
	least, most := time.Since(s.use.last)-slack, time.Since(s.use.first)+slack
	if idle := time.Duration(r.IdleSeconds * float64(time.Second)); idle < least || idle > most || r.IdleSeconds < 0 {
		return fmt.Errorf("%s of %s was used between %.1f and %.1f s ago and has an idle time of %.1f s", r.ID, r.Model, least.Seconds(), most.Seconds(), r.IdleSeconds)
	}
	return nil
}

// tableIdle reads the column IDLE of the table that people see, by model.
func (s *script) tableIdle(ctx context.Context) (map[string]string, error) {
	text, err := s.Do(ctx, "replicas")
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	head := strings.Fields(lines[0])
	model, idle := slices.Index(head, "MODEL"), slices.Index(head, "IDLE")
	out := map[string]string{}
	for _, line := range lines[1:] {
		if cells := strings.Fields(line); model >= 0 && idle >= 0 && len(cells) > max(model, idle) {
			out[cells[model]] = cells[idle]
		}
	}
	return out, nil
}

func (s *script) restartRouter(ctx context.Context) (string, error) {
	before, err := s.router1(ctx)
	if err != nil {
		return "", err
	}
	if err := s.Routers[0].Stop(stage.Patience); err != nil {
		return "", err
	}
	if err := s.Routers[0].Start(); err != nil {
		return "", err
	}
	s.boot = before.Boot + 1
	if err := s.reportsBoot(ctx); err != nil {
		return "", err
	}
	if err := s.reportsNothing(ctx); err != nil {
		return "", err
	}
	idle, err := s.checkIdle(ctx)
	return fmt.Sprintf("boot %d after %d, no entries; %s", s.boot, before.Boot, idle), err
}

// reportsBoot waits until the peers have a report of router 1's newest life. A peer may show for a moment what it knew before.
func (s *script) reportsBoot(ctx context.Context) error {
	return stage.Until(ctx, 15*time.Second, func(ctx context.Context) error {
		now, err := s.router1(ctx)
		if err == nil && (now.Boot != s.boot || now.State != "reporting" || now.HeardSeconds > 2) {
			err = fmt.Errorf("router-1 is %s with boot %d, heard %.1f s ago; want a report of boot %d", now.State, now.Boot, now.HeardSeconds, s.boot)
		}
		return err
	})
}

// reportsNothing checks that router 1, which has served nothing since its start, has no entry for any replica, as JSON and as people see it.
func (s *script) reportsNothing(ctx context.Context) error {
	uses, err := s.routerUses(ctx)
	if err == nil && len(uses) > 0 {
		err = fmt.Errorf("router-1 has served nothing since its start and reports %v", uses)
	}
	if err != nil {
		return err
	}
	text, err := s.Do(ctx, "router", "show", "router-1")
	if err != nil {
		return err
	}
	rows := 0
	for _, line := range strings.Split(text, "\n") {
		cells := strings.Fields(line)
		if len(cells) == 4 && strings.HasPrefix(cells[0], "r-") {
			rows++
			if cells[2] != "-" {
				return fmt.Errorf("berthctl router show router-1 prints an idle time that it cannot know: %s", line)
			}
		}
	}
	if rows == 0 {
		return fmt.Errorf("berthctl router show router-1 lists no replica")
	}
	return nil
}

func (s *script) killLeaderAgain(ctx context.Context) (string, error) {
	old, err := s.leader(ctx, nil)
	if err != nil {
		return "", err
	}
	next, took, err := s.killLeader(ctx, old)
	if err != nil {
		return "", err
	}
	if err := s.reportsBoot(ctx); err != nil {
		return "", err
	}
	if err := s.reportsNothing(ctx); err != nil {
		return "", err
	}
	idle, err := s.checkIdle(ctx)
	if err != nil {
		return "", err
	}
	if err := s.killed.Start(); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s leads after %.1f s; %s", next.Name, took.Seconds(), idle), s.equal(ctx)
}
