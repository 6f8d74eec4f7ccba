package memnet

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// connectTimeout is how long a dial into a cut link hangs when its context sets no earlier end. Kernels try for two
// minutes; nobody who waits so long has set a deadline, and a test should see it.
const connectTimeout = 2 * time.Minute

// Network is a set of hosts and the state of the links between them.
type Network struct {
	seed uint64

	mu      sync.Mutex
	nodes   map[string]*node // by every name
	latency time.Duration
	loss    float64
	down    map[string]bool // isolated hosts
	cuts    map[link]bool
	stalls  map[link]bool
	dice    map[link]*rand.Rand // one source a link: traffic elsewhere does not change what this link loses
	changed chan bool           // closed and renewed at each change of a link, for dials that wait
}

// link is one direction between two hosts, by their first names.
type link struct{ from, to string }

// node is a machine: its names and what is bound on it, whichever process bound it.
type node struct {
	name    string
	ip      string // what its sockets call it: the first name that is an address, else the name
	host    *Host
	life    int // counts kills of the whole host
	streams map[binding]*listener
	packets map[binding]*packetConn
	next    int // last ephemeral port given
	sockets map[socket]struct{}
}

// binding is a bound port on one of a host's two interfaces, or on both. All names of a host are on the outer one.
type binding struct {
	at   iface
	port int
}

type iface int

const (
	both iface = iota
	outer
	loopback
)

// socket is anything that a cut or a kill must find again.
type socket interface {
	// kill ends the socket as the death of its process does.
	kill()
	process() *Host
}

// New makes an empty network without latency or loss. The seed decides which datagrams are lost later.
func New(seed uint64) *Network {
	return &Network{
		seed:    seed,
		nodes:   make(map[string]*node),
		down:    make(map[string]bool),
		cuts:    make(map[link]bool),
		stalls:  make(map[link]bool),
		dice:    make(map[link]*rand.Rand),
		changed: make(chan bool),
	}
}

// Host gives the host of that name, made at first use. Further names, such as addresses, reach it as well; they are
// taken at first use only. After [Host.Kill] the same name gives the host as it is after a restart: nothing bound,
// links as they were.
func (n *Network) Host(name string, more ...string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	nd := n.nodes[name]
	if nd == nil {
		nd = newNode(name, more)
		for _, each := range append([]string{name}, more...) {
			if n.nodes[each] != nil {
				panic("memnet: two hosts named " + each)
			}
			n.nodes[each] = nd
		}
	}
	if nd.host == nil || nd.host.gone() {
		nd.host = &Host{net: n, node: nd, life: nd.life}
	}
	return nd.host
}

func newNode(name string, more []string) *node {
	nd := &node{name: name, ip: name, next: 32767,
		streams: make(map[binding]*listener), packets: make(map[binding]*packetConn), sockets: make(map[socket]struct{})}
	for _, each := range append([]string{name}, more...) {
		if _, err := netip.ParseAddr(each); err == nil {
			nd.ip = each
			break
		}
	}
	return nd
}

// SetLatency sets the one-way delay of every link between two hosts, for what is sent from now on.
func (n *Network) SetLatency(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.latency = d
}

// SetLoss sets the share of datagrams (0 to 1) that each link between two hosts loses. Streams lose nothing.
func (n *Network) SetLoss(share float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.loss = share
}

// Isolate cuts a host off from all others, both ways. See [Network.Cut] for what they notice.
func (n *Network) Isolate(host string) {
	n.mu.Lock()
	n.down[n.canonical(host)] = true
	n.settle()
}

// Cut loses everything that one host sends to another; the other direction stays. Connections between the two are
// reset, since a stream needs both directions. New dials hang until Heal or their deadline, datagrams vanish.
func (n *Network) Cut(from, to string) {
	n.mu.Lock()
	n.cuts[link{n.canonical(from), n.canonical(to)}] = true
	n.settle()
}

// Stall is the silent kind of cut: datagrams vanish, but connections stay open and what is sent on them from one host
// to the other arrives only after Heal, as with a cable that is pulled and put back. Dials hang.
func (n *Network) Stall(from, to string) {
	n.mu.Lock()
	n.stalls[link{n.canonical(from), n.canonical(to)}] = true
	n.settle()
}

// Heal removes every cut, stall and isolation that names the host.
func (n *Network) Heal(host string) {
	n.mu.Lock()
	name := n.canonical(host)
	delete(n.down, name)
	for _, set := range []map[link]bool{n.cuts, n.stalls} {
		for l := range set {
			if l.from == name || l.to == name {
				delete(set, l)
			}
		}
	}
	n.settle()
}

// HealAll removes every cut, stall and isolation.
func (n *Network) HealAll() {
	n.mu.Lock()
	clear(n.down)
	clear(n.cuts)
	clear(n.stalls)
	n.settle()
}

// settle makes open connections and waiting dials notice the present links. It is called with the lock and releases it,
// because ending a connection takes the lock again.
func (n *Network) settle() {
	close(n.changed)
	n.changed = make(chan bool)
	var reset []*conn
	for _, nd := range n.nodes {
		for s := range nd.sockets {
			c, ok := s.(*conn)
			if !ok {
				continue
			}
			l := link{c.owner.node.name, c.peer.node.name}
			c.out.stall(n.stalls[l])
			c.in.stall(n.stalls[l.back()]) // also by this end: the other may have closed, with bytes still on the way
			if n.cut(l) || n.cut(l.back()) {
				reset = append(reset, c)
			}
		}
	}
	n.mu.Unlock()
	for _, c := range reset {
		c.reset(syscall.ECONNRESET)
	}
}

func (l link) back() link { return link{l.to, l.from} }

func (n *Network) canonical(host string) string {
	if nd := n.nodes[host]; nd != nil {
		return nd.name
	}
	return host // not made yet: the cut waits for it
}

func (n *Network) cut(l link) bool {
	return l.from != l.to && (n.down[l.from] || n.down[l.to] || n.cuts[l])
}

// open reports whether a new stream can be made, which takes both directions.
func (n *Network) open(l link) bool {
	return !n.cut(l) && !n.cut(l.back()) && !n.stalls[l] && !n.stalls[l.back()]
}

// loses throws the dice for one datagram.
func (n *Network) loses(l link) bool {
	if l.from == l.to || n.loss == 0 {
		return false
	}
	d := n.dice[l]
	if d == nil {
		d = rand.New(rand.NewPCG(n.seed, hash(l.from)*31+hash(l.to)))
		n.dice[l] = d
	}
	return d.Float64() < n.loss
}

// hash is FNV-1a, 64 bit (draft-eastlake-fnv): the same in every run, unlike maphash.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

func (n *Network) delay(l link) time.Duration {
	if l.from == l.to {
		return 0
	}
	return n.latency
}

// address is a socket's address on a host whose name is not an IP address.
type address struct{ network, text string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.text }

// addrOf gives the types of package net where it can, because their users look for them.
func addrOf(network, host string, port int) net.Addr {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return address{network, join(host, port)}
	case network == "udp":
		return net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port)))
	default:
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(port)))
	}
}

var errDead = errors.New("host was killed")
