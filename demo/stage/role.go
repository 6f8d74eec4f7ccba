package stage

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"berth/internal/procs"
)

// Role is one process of the cluster, which may be started many times.
type Role struct {
	Name string
	Addr string // of its HTTP API: a peer's, an agent's, a router's for clients

	gossip string
	root   string
	argv   []string
	stage  *Stage
	proc   *procs.Process
}

// enginePorts is how many ports a node gets for doors and engines.
const enginePorts = 40

func (s *Stage) newRole(kind, name string, ports int) (*Role, []string, error) {
	first, err := s.ports.Take(ports)
	if err != nil {
		return nil, nil, err
	}
	addrs := make([]string, ports)
	for i := range addrs {
		addrs[i] = fmt.Sprintf("127.0.0.1:%d", first+i)
	}
	r := &Role{Name: name, Addr: addrs[0], stage: s}
	r.argv = []string{s.Program("berth"), kind, "--name", name, "--data-dir", s.Path(name), "--bind", addrs[0]}
	return r, addrs, nil
}

func (s *Stage) newPeer(name string) (*Role, error) {
	r, addrs, err := s.newRole("peer", name, 3)
	if err != nil {
		return nil, err
	}
	r.gossip = addrs[2]
	r.argv = append(r.argv, "--raft-bind", addrs[1], "--gossip-bind", addrs[2])
	return r, nil
}

func (s *Stage) newRouter(name string) (*Role, error) {
	r, addrs, err := s.newRole("router", name, 3)
	if err != nil {
		return nil, err
	}
	r.argv = append(r.argv, "--ops-bind", addrs[1], "--gossip-bind", addrs[2])
	r.argv = append(r.argv, s.join()...)
	return r, nil
}

// newAgent writes the agent's files as a person would. It stops its engines when it is asked to end, so that nothing outlives the demonstration;
// one that is killed leaves them running, as ever.
func (s *Stage) newAgent(n Node) (*Role, error) {
	r, addrs, err := s.newRole("agent", n.Name, 2+enginePorts)
	if err != nil {
		return nil, err
	}
	gpus := fmt.Sprintf("version: 1\nfabric: %s\ngpus: [{class: h100-sxm-80gb, memory: 80GiB, count: %d}]\n", n.Fabric, n.GPUs)
	if err := os.WriteFile(s.Path(n.Name+"-gpus.yaml"), []byte(gpus), 0o600); err != nil {
		return nil, err
	}
	var join []string
	for _, p := range s.Peers {
		join = append(join, `"`+p.gossip+`"`)
	}
	var file strings.Builder
	fmt.Fprintf(&file, "version: 1\nname: %s\njoin: [%s]\ngpus: file:%s\n", n.Name, strings.Join(join, ", "), s.Path(n.Name+"-gpus.yaml"))
	fmt.Fprintf(&file, "bind: %q\ndata_dir: %s\nengine_ports: %s\n%s", addrs[0], s.Path(n.Name), portRange(addrs[2:]), n.More)
	if n.Roots {
		r.root = s.Path(n.Name + "-models")
		if err := os.Mkdir(r.root, 0o700); err != nil {
			return nil, err
		}
		fmt.Fprintf(&file, "model_roots: [%s]\n", r.root)
	}
	if err := os.WriteFile(s.Path(n.Name+".yaml"), []byte(file.String()), 0o600); err != nil {
		return nil, err
	}
	r.argv = []string{s.Program("berth"), "agent", "--config", s.Path(n.Name + ".yaml"), "--gossip-bind", addrs[1], "--stop-engines-on-exit"}
	return r, nil
}

func portRange(addrs []string) string {
	port := func(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }
	return port(addrs[0]) + "-" + port(addrs[len(addrs)-1])
}

// Start starts the process; it must not be running.
func (r *Role) Start() error {
	if r.Alive() {
		return fmt.Errorf("%s runs already", r.Name)
	}
	p, err := r.stage.Group.Start(r.Name, r.argv...)
	r.proc = p
	return err
}

// Alive says whether the process runs.
func (r *Role) Alive() bool { return r.proc != nil && r.proc.Alive() }

// Kill ends the process by SIGKILL.
func (r *Role) Kill() error { return r.proc.Kill() }

// Stop ends the process in order and waits for it.
func (r *Role) Stop(patience time.Duration) error {
	if err := r.proc.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-r.proc.Done():
	case <-time.After(patience):
		return fmt.Errorf("%s has not ended within %s of SIGTERM", r.Name, patience)
	}
	if code := r.proc.ExitCode(); code != 0 {
		return fmt.Errorf("%s ended with %d: %s", r.Name, code, strings.Join(r.proc.Log(1), ""))
	}
	return nil
}

// Process is the process that was started last; nil: none.
func (r *Role) Process() *procs.Process { return r.proc }

// URL is the base URL of the role's HTTP API.
func (r *Role) URL() string { return "http://" + r.Addr }

// ModelRoot is the folder that a node's weights may lie in.
func (r *Role) ModelRoot() string { return r.root }

// Gossip is the gossip address of a peer.
func (r *Role) Gossip() string { return r.gossip }
