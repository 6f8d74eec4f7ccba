package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"berth/agent/shim"
	"berth/fleet"
	"berth/internal/listen"
)

// Config is all that an agent must be told. Zero values take the defaults named here.
type Config struct {
	Name      string // of this node, unique in the cluster
	DataDir   string // made if it is missing
	Bind      string // the agent's own HTTP; default 127.0.0.1:7310
	Advertise string // where peers reach it; default: what was bound
	Release   string // of this program, for the peers and /metrics

	EngineBind  string    // host that doors, and what ranks say to each other, bind; default 127.0.0.1
	EnginePorts PortRange // what doors and engines may take; default 20000-20999
	ModelRoots  []string  // absolute folders that weights may lie in
	Labels      map[string]string
	Engines     map[string]EngineConfig // by driver; one that is not here is not offered. Without a configuration, cmd fills in what PATH has

	// EngineEnv is the environment that every engine has beside what its driver sets: PATH, HOME, a hub's token.
	EngineEnv []string

	Inventory Inventory
	Drivers   []Driver
	Maker     shim.Maker
	Peers     Peers
	Addresses Addresses // usually the same value as Peers; nil: what heartbeats say of the peers' addresses is ignored

	Network listen.Network // default: the machine's
	Policy  listen.Policy  // of what the agent and the doors listen on
	Logger  *slog.Logger   // default: none

	Interval time.Duration // H, until an answer to a heartbeat says otherwise; default 1 s
	Logs     string        // root of the folders in which shims leave their engines' output; default DataDir/logs
	Sockets  string        // folder for engines' unix sockets; default DataDir/sockets, or one below the system's temporary folder
	// Companion runs beside the agent for as long as it lives, once its identity is known: gossip, which must name the same instance as the
	// registration does. nil: nothing.
	Companion func(ctx context.Context, self Self) error
	// StopEnginesOnExit ends every engine when the agent ends. The default is that they run on.
	StopEnginesOnExit bool
}

// Self is the identity that an agent has on its disk, and where it is reached.
type Self struct {
	ID       string
	Instance uint64
	Address  string // host:port of its HTTP
	Cluster  string // the cluster that it has registered with; empty: none yet
}

// PortRange is a range of TCP ports, both ends included.
type PortRange struct{ First, Last int }

// ParsePorts reads "20000-20999", or one port.
func ParsePorts(s string) (PortRange, error) {
	first, last, isRange := strings.Cut(strings.TrimSpace(s), "-")
	if !isRange {
		last = first
	}
	a, err1 := strconv.Atoi(strings.TrimSpace(first))
	b, err2 := strconv.Atoi(strings.TrimSpace(last))
	r := PortRange{First: a, Last: b}
	if err1 != nil || err2 != nil {
		return PortRange{}, fmt.Errorf("%q is no range of ports; write it like 20000-20999", s)
	}
	return r, r.check()
}

func (r PortRange) check() error {
	switch {
	case r.First < 1 || r.Last > 65535:
		return fmt.Errorf("the ports %s leave 1 to 65535", r)
	case r.First > r.Last:
		return fmt.Errorf("the range of ports %s ends before it begins; write it like 20000-20999", r)
	}
	return nil
}

// String writes what ParsePorts reads.
func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *PortRange) UnmarshalText(text []byte) error {
	v, err := ParsePorts(string(text))
	if err == nil {
		*r = v
	}
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (r PortRange) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (c Config) withDefaults() Config {
	text := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	text(&c.Bind, "127.0.0.1:7310")
	text(&c.EngineBind, "127.0.0.1")
	text(&c.Logs, filepath.Join(c.DataDir, "logs"))
	if c.EnginePorts == (PortRange{}) {
		c.EnginePorts = PortRange{First: 20000, Last: 20999}
	}
	if c.Network == nil {
		c.Network = listen.System
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Interval == 0 {
		c.Interval = time.Second
	}
	return c
}

// Validate lists everything that is wrong, defaults filled in.
func (c Config) Validate() error {
	c = c.withDefaults()
	var bad []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	note := func(err error) {
		if err != nil {
			bad = append(bad, err)
		}
	}
	note(fleet.CheckName("node", c.Name))
	require(c.DataDir != "", "the data directory is not named (--data-dir)")
	require(c.Inventory != nil, "nothing measures the machine (gpus: nvml, nvidia-smi, file:… or none)")
	require(c.Maker != nil, "nothing makes shims")
	require(c.Peers != nil, "there is no peer to ask (--join or --peer)")
	require(c.Interval > 0, "the heartbeat's interval is %s; it must be more than 0s", c.Interval)
	note(c.Policy.Check(c.Bind))
	note(c.Policy.Check(net.JoinHostPort(c.EngineBind, "0")))
	require(!wildcard(c.EngineBind), "engine_bind is %q: name the address at which routers and other nodes reach this one", c.EngineBind)
	if host, _, err := net.SplitHostPort(c.Bind); err == nil {
		require(!wildcard(host) || c.Advertise != "", "the agent binds %s: say at which address peers reach it (--advertise)", c.Bind)
	}
	if err := c.EnginePorts.check(); err != nil {
		note(fmt.Errorf("engine_ports: %w", err))
	}
	for _, root := range c.ModelRoots {
		require(filepath.IsAbs(root), "the model root %q is not an absolute path", root)
	}
	return errors.Join(append(bad, c.checkEngines()...)...)
}

// wildcard says whether a host means every address of the machine, which nobody else can dial.
func wildcard(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// checkEngines refuses engines that no driver of this program runs: a typing error there would only show as "unplaceable" much later.
func (c Config) checkEngines() []error {
	var bad []error
	known := map[string]bool{}
	for _, d := range c.Drivers {
		if known[d.Name()] {
			bad = append(bad, fmt.Errorf("there are two drivers named %q", d.Name()))
		}
		known[d.Name()] = true
	}
	for name, e := range c.Engines {
		if !known[name] {
			bad = append(bad, fmt.Errorf("engines: there is no driver %q", name))
		}
		for _, flag := range e.AllowArgs {
			if flag != anyArg && !strings.HasPrefix(flag, "-") {
				bad = append(bad, fmt.Errorf("engines: allow_args of %s has %q, which is no flag; write --flag, or \"*\" for any", name, flag))
			}
		}
	}
	return bad
}

func (c *Config) driver(name string) (Driver, bool) {
	for _, d := range c.Drivers {
		if d.Name() == name {
			return d, true
		}
	}
	return nil, false
}
