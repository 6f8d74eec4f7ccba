package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

func dialer(limit time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return (&net.Dialer{Timeout: limit}).DialContext
}

// cutFor is how long a cut lasts.
const cutFor = 10 * time.Second

// isolated takes the leader's cable out.
func (t *trial) isolated(ctx context.Context) error {
	m, err := t.leader(ctx)
	if err != nil {
		return err
	}
	if err := sh(ctx, "ip -n %s link set %s down", t.hub, m.port); err != nil {
		return err
	}
	pause(ctx, cutFor)
	return sh(ctx, "ip -n %s link set %s up", t.hub, m.port)
}

// deaf makes what one machine sends to another go nowhere: to a hardware address that nobody has. The sender notices nothing.
func deaf(ctx context.Context, from, to *machine) error {
	return sh(ctx, "ip -n %s neigh replace %s lladdr 02:00:00:00:be:ef dev eth0 nud permanent", from.ns, to.ip)
}

func hears(ctx context.Context, from, to *machine) error {
	return sh(ctx, "ip -n %s neigh del %s dev eth0", from.ns, to.ip)
}

func (t *trial) cannotSend(ctx context.Context) error {
	return t.oneWay(ctx, func(leader, other *machine) (*machine, *machine) { return leader, other })
}

func (t *trial) cannotHear(ctx context.Context) error {
	return t.oneWay(ctx, func(leader, other *machine) (*machine, *machine) { return other, leader })
}

func (t *trial) oneWay(ctx context.Context, direction func(leader, other *machine) (from, to *machine)) error {
	leader, err := t.leader(ctx)
	if err != nil {
		return err
	}
	for _, change := range []func(context.Context, *machine, *machine) error{deaf, hears} {
		for _, other := range t.peers {
			if other == leader {
				continue
			}
			from, to := direction(leader, other)
			if err := change(ctx, from, to); err != nil {
				return err
			}
		}
		pause(ctx, cutFor)
	}
	return nil
}

// lossy drops every fifth packet that a peer is sent.
func (t *trial) lossy(ctx context.Context) error {
	for _, m := range t.peers {
		for _, rule := range []string{
			"add table inet lab", "'add chain inet lab in { type filter hook input priority 0; }'", "add rule inet lab in iifname eth0 numgen random mod 100 '<' 20 drop",
		} {
			if err := sh(ctx, "ip netns exec %s nft %s", m.ns, rule); err != nil {
				return err
			}
		}
	}
	pause(ctx, cutFor)
	for _, m := range t.peers {
		if err := sh(ctx, "ip netns exec %s nft delete table inet lab", m.ns); err != nil {
			return err
		}
	}
	return nil
}

// small gives a machine a disk of 160 MiB: larger than what it warns about.
func small(ctx context.Context, m *machine) error {
	return sh(ctx, "mount -t tmpfs -o size=160m,mode=0755 tmpfs %s", filepath.Join(m.dir, "var"))
}

// loop gives a machine a file system of its own, which can be frozen.
func loop(ctx context.Context, m *machine) error {
	return sh(ctx, "truncate -s 256m %[1]s/disk && mkfs.ext4 -q %[1]s/disk && mount -o loop %[1]s/disk %[1]s/var && chmod 0755 %[1]s/var", m.dir)
}

// thaw lets a frozen disk go on; one that is not frozen does not mind.
func (m *machine) thaw() {
	if m.mounted() {
		_ = sh(context.Background(), "fsfreeze -u %s 2>/dev/null || true", filepath.Join(m.dir, "var"))
	}
}

func (m *machine) mounted() bool {
	return sh(context.Background(), "mountpoint -q %s", filepath.Join(m.dir, "var")) == nil
}

// unmount takes the machine's disk away.
func (m *machine) unmount() error {
	if !m.mounted() {
		return nil
	}
	var last error
	for range 20 { // a process that was killed a moment ago may hold it
		if last = sh(context.Background(), "umount %s", filepath.Join(m.dir, "var")); last == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("%s: %w", strings.TrimSpace(m.name), last)
}
