package agent

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	"berth/agent/shim"
	"berth/internal/listen"
)

// enginePorts is how many ports besides its own an engine gets for itself and its other ranks.
const enginePorts = 4

// ports hands out TCP ports of the node's range for engines and for where ranks meet. Doors take theirs from the low end of the range, by
// themselves; these come from the high end. A port stays taken until its shard is over, also while nothing listens on it.
type ports struct {
	network listen.Network
	bind    string
	span    PortRange

	mu    sync.Mutex
	owner map[int]string // port → replica
	own   map[string]int // replica → the port of its engine
}

func newPorts(c *Config) *ports {
	return &ports{network: c.Network, bind: c.EngineBind, span: c.EnginePorts, owner: make(map[int]string), own: make(map[string]int)}
}

// take gives n ports, the first of them for the engine. A shard's engine keeps its port from start to start, since its door knows it by that;
// the others are new if they can be, because what is left of the start before may still listen on its own.
func (p *ports) take(ctx context.Context, replica string, n int) ([]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []int
	if port, ok := p.own[replica]; ok {
		out = append(out, port)
	}
	out = p.find(ctx, "", n, out)
	out = p.find(ctx, replica, n, out)
	if len(out) < n {
		return nil, fmt.Errorf("only %d of the ports %s are free, and %d are needed: widen engine_ports", len(out), p.span, n)
	}
	p.drop(replica)
	for _, port := range out {
		p.owner[port] = replica
	}
	p.own[replica] = out[0]
	return out, nil
}

// find adds free ports of one owner ("": of none) until there are n.
func (p *ports) find(ctx context.Context, owner string, n int, out []int) []int {
	for port := p.span.Last; port >= p.span.First && len(out) < n; port-- {
		if p.owner[port] == owner && !slices.Contains(out, port) && p.free(ctx, "127.0.0.1", port) && p.free(ctx, p.bind, port) {
			out = append(out, port)
		}
	}
	return out
}

func (p *ports) free(ctx context.Context, host string, port int) bool {
	ln, err := p.network.Listen(ctx, net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

// keep takes again what the program of a shim that was found has.
func (p *ports) keep(replica string, program shim.Program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if port, ok := portOf(program.Master); ok {
		p.owner[port] = replica
	}
	if port, ok := portOf(program.Engine); ok {
		p.owner[port], p.own[replica] = replica, port
	}
}

// portOf is the port of "host:port"; an engine on a unix socket has none.
func portOf(addr string) (int, bool) {
	_, text, err := net.SplitHostPort(addr)
	if err != nil {
		return 0, false
	}
	port, err := strconv.Atoi(text)
	return port, err == nil
}

// release gives back everything that a replica has.
func (p *ports) release(replica string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(replica)
}

func (p *ports) drop(replica string) {
	for port, owner := range p.owner {
		if owner == replica {
			delete(p.owner, port)
		}
	}
	delete(p.own, replica)
}
