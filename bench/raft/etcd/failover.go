package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// The same as in bench/failover, whose other side this is.
const (
	tryFor = 500 * time.Millisecond
	pause  = 10 * time.Millisecond
	giveUp = time.Minute
)

// member is one server of the cluster whose leader is killed.
type member struct {
	argv   []string
	client string // URL
	proc   *exec.Cmd
}

func (m *member) start() error {
	m.proc = exec.Command(m.argv[0], m.argv[1:]...)
	m.proc.Stderr = os.Stderr
	return m.proc.Start()
}

func (m *member) kill() error {
	if m.proc == nil {
		return nil
	}
	err := m.proc.Process.Kill()
	_ = m.proc.Wait()
	m.proc = nil
	return err
}

// failover kills the leader of three servers with etcd's defaults, again and again, and prints for each kill how many seconds went by until the next
// write was answered.
func failover(kills, port int) (err error) {
	dir, err := os.MkdirTemp("", "etcd-failover-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	members, err := threeMembers(dir, port)
	if err != nil {
		return err
	}
	defer func() {
		for _, m := range members {
			err = errors.Join(err, m.kill())
		}
	}()
	for _, m := range members {
		if err := m.start(); err != nil {
			return err
		}
	}
	var times []float64
	for range kills {
		took, err := once(members)
		if err != nil {
			return err
		}
		times = append(times, took.Seconds())
	}
	return json.NewEncoder(os.Stdout).Encode(times)
}

func threeMembers(dir string, port int) ([]*member, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	url := func(n int) string { return fmt.Sprintf("http://127.0.0.1:%d", port+n) }
	var cluster []string
	for i := range 3 {
		cluster = append(cluster, fmt.Sprintf("etcd-%d=%s", i+1, url(2*i+1)))
	}
	var out []*member
	for i := range 3 {
		name := fmt.Sprintf("etcd-%d", i+1)
		out = append(out, &member{client: url(2 * i), argv: []string{
			self, "-serve", name, "-client", url(2 * i), "-peer", url(2*i + 1), "-cluster", strings.Join(cluster, ","), "-data", filepath.Join(dir, name),
		}})
	}
	return out, nil
}

// once waits until all servers have caught up, kills the leader, waits for a write, and brings the dead one back.
func once(members []*member) (time.Duration, error) {
	leader, err := settled(members)
	if err != nil {
		return 0, err
	}
	var rest []string
	for _, m := range members {
		if m != leader {
			rest = append(rest, m.client)
		}
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: rest, DialTimeout: 5 * time.Second})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	began := time.Now()
	if err := leader.kill(); err != nil {
		return 0, err
	}
	if err := untilWritten(c); err != nil {
		return 0, err
	}
	return time.Since(began), leader.start()
}

func untilWritten(c *clientv3.Client) error {
	for began := time.Now(); ; time.Sleep(pause) {
		ctx, cancel := context.WithTimeout(context.Background(), tryFor)
		_, err := c.Put(ctx, "failover", fmt.Sprint(time.Now().UnixNano()))
		cancel()
		if err == nil {
			return nil
		}
		if time.Since(began) > giveUp {
			return fmt.Errorf("no write within %s: %w", giveUp, err)
		}
	}
}

// settled waits until all three answer at the same index, and gives the leader.
func settled(members []*member) (*member, error) {
	var last error
	for began := time.Now(); time.Since(began) < giveUp; time.Sleep(100 * time.Millisecond) {
		leader, err := look(members)
		if err == nil {
			return leader, nil
		}
		last = err
	}
	return nil, fmt.Errorf("the cluster is not whole after %s: %w", giveUp, last)
}

func look(members []*member) (*member, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var leader *member
	var index uint64
	for i, m := range members {
		c, err := clientv3.New(clientv3.Config{Endpoints: []string{m.client}, DialTimeout: time.Second})
		if err != nil {
			return nil, err
		}
		s, err := c.Status(ctx, m.client)
		_ = c.Close()
		switch {
		case err != nil:
			return nil, err
		case i > 0 && s.RaftAppliedIndex != index:
			return nil, fmt.Errorf("%s has applied %d, another %d", m.client, s.RaftAppliedIndex, index)
		case s.Leader == s.Header.MemberId:
			leader = m
		}
		index = s.RaftAppliedIndex
	}
	if leader == nil {
		return nil, errors.New("nobody leads")
	}
	return leader, nil
}
