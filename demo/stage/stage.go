package stage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"berth/admin/client"
	"berth/internal/procs"
)

// Config is the shape of a cluster.
type Config struct {
	Bin     string // folder with berth and berthctl
	Peers   int
	Nodes   []Node
	Routers int
	Ports   *procs.Ports // nil: a source of its own; clusters of one process need a common one
}

// Node is one GPU machine.
type Node struct {
	Name   string
	Fabric string
	GPUs   int
	More   string // further lines of the agent's file
	Roots  bool   // gives the node a model root
}

// Stage is a cluster of processes. Nothing runs until its roles are started. Its owner calls Close.
type Stage struct {
	*procs.Group
	Peers, Agents, Routers []*Role

	bin   string
	ports *procs.Ports
}

// New prepares a cluster: folders, ports and files.
func New(cfg Config) (*Stage, error) {
	bin, err := filepath.Abs(cfg.Bin)
	if err != nil {
		return nil, err
	}
	for _, program := range []string{"berth", "berthctl"} {
		if _, err := os.Stat(filepath.Join(bin, program)); err != nil {
			return nil, fmt.Errorf("there is no %s in %s; make build puts it there: %w", program, cfg.Bin, err)
		}
	}
	g, err := procs.NewGroup("berth-demo-")
	if err != nil {
		return nil, err
	}
	s := &Stage{Group: g, bin: bin, ports: cfg.Ports}
	if s.ports == nil {
		s.ports = procs.NewPorts()
	}
	if err := s.prepare(cfg); err != nil {
		return nil, errors.Join(err, s.Close(0))
	}
	return s, nil
}

func (s *Stage) prepare(cfg Config) error {
	var errs []error
	for i := range cfg.Peers {
		r, err := s.newPeer(fmt.Sprintf("peer-%d", i+1))
		s.Peers, errs = append(s.Peers, r), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, r := range s.Peers {
		r.argv = append(r.argv, "--bootstrap-expect", fmt.Sprint(cfg.Peers))
		r.argv = append(r.argv, s.join()...)
	}
	for _, n := range cfg.Nodes {
		r, err := s.newAgent(n)
		s.Agents, errs = append(s.Agents, r), append(errs, err)
	}
	for i := range cfg.Routers {
		r, err := s.newRouter(fmt.Sprintf("router-%d", i+1))
		s.Routers, errs = append(s.Routers, r), append(errs, err)
	}
	return errors.Join(errs...)
}

// Program is the path of one of the binaries.
func (s *Stage) Program(name string) string { return filepath.Join(s.bin, name) }

// join are the flags that name every peer's gossip address.
func (s *Stage) join() []string {
	var flags []string
	for _, p := range s.Peers {
		flags = append(flags, "--join", p.gossip)
	}
	return flags
}

// Start starts every role of a kind.
func (s *Stage) Start(roles []*Role) error {
	for _, r := range roles {
		if err := r.Start(); err != nil {
			return err
		}
	}
	return nil
}

// Client returns a client that asks the given peers, the first one that answers.
func (s *Stage) Client(peers ...*Role) (*client.Client, error) {
	var addrs []string
	for _, p := range peers {
		addrs = append(addrs, p.Addr)
	}
	return client.New(client.Config{Addrs: addrs, Agent: "berth-demo"})
}

// Alive returns the roles that run.
func Alive(roles []*Role) []*Role {
	var out []*Role
	for _, r := range roles {
		if r.Alive() {
			out = append(out, r)
		}
	}
	return out
}

// Find returns the role of that name.
func Find(roles []*Role, name string) (*Role, error) {
	for _, r := range roles {
		if r.Name == name {
			return r, nil
		}
	}
	return nil, fmt.Errorf("no process is named %q", name)
}

// Logs returns the last n lines of each process, for a report of a failure.
func (s *Stage) Logs(n int) string {
	var out strings.Builder
	for _, p := range s.Processes() {
		state := "runs"
		if !p.Alive() {
			state = fmt.Sprintf("ended with %d", p.ExitCode())
		}
		fmt.Fprintf(&out, "--- %s (%s)\n", p.Name, state)
		for _, line := range p.Log(n) {
			fmt.Fprintln(&out, "   ", line)
		}
	}
	return out.String()
}

// Patience is how long the roles may take to end in order.
const Patience = 20 * time.Second
