package engine

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"berth/agent"
	"berth/agent/shim"
	"berth/fleet"
)

// kind is what tells one engine from another.
type kind struct {
	name      string
	spanNodes bool
	program   []string // looked for in PATH when nothing is configured; empty: it must be configured
	version   versionQuery
	// reserved are the flags that come from the order; a model may not set them, whatever the node allows.
	reserved []string
	// abbreviates says that the program takes any beginning of a flag that is one flag's alone (Python's argparse); whole are flags of its own that
	// begin a reserved one and are not meant.
	abbreviates bool
	whole       []string
	launch      func(agent.LaunchInput, []string) (shim.Program, shim.Recipe, error)
}

func kinds() []kind { return []kind{vllm(), sglang(), llamacpp(), simulated(), command()} }

// New returns the driver of that name under a node's configuration.
func New(name string, cfg agent.EngineConfig) (agent.Driver, error) {
	for _, k := range kinds() {
		if k.name != name {
			continue
		}
		if len(cfg.Command) == 0 && len(k.program) == 0 {
			return nil, fmt.Errorf("engines.%s has no command; only vllm, sglang and llamacpp are looked for in PATH", name)
		}
		if err := checkTemplates(k, cfg.Command); err != nil {
			return nil, err
		}
		return driver{kind: k, cfg: cfg}, nil
	}
	return nil, fmt.Errorf("engines.%s: there is no driver of that name; use one of %s", name, strings.Join(fleet.Drivers(), ", "))
}

// Found returns the drivers whose program is in PATH, for a node that configures none. They may fetch weights by hub name and take any argument
// that the driver does not set itself.
func Found() ([]agent.Driver, map[string]agent.EngineConfig) {
	var all []agent.Driver
	configs := map[string]agent.EngineConfig{}
	for _, k := range kinds() {
		if len(k.program) > 0 {
			configs[k.name] = agent.EngineConfig{Hub: k.name != "llamacpp", AllowArgs: []string{"*"}}
			all = append(all, driver{kind: k, cfg: configs[k.name]})
		}
	}
	return all, configs
}

type driver struct {
	kind kind
	cfg  agent.EngineConfig
}

// Name implements agent.Driver.
func (d driver) Name() string { return d.kind.name }

func (d driver) commandLine() []string {
	if len(d.cfg.Command) > 0 {
		return d.cfg.Command
	}
	return d.kind.program
}

// Offer implements agent.Driver.
func (d driver) Offer(ctx context.Context) (fleet.EngineOffer, bool) {
	cmd := d.commandLine()
	if _, err := lookPath(cmd[0]); err != nil {
		return fleet.EngineOffer{}, false
	}
	o := fleet.EngineOffer{Driver: d.kind.name, Version: d.cfg.Version, Hub: d.cfg.Hub, SpanNodes: d.kind.spanNodes, AllowArgs: d.cfg.AllowArgs}
	if d.kind.name == "command" {
		o.SpanNodes = mentions(cmd, "Rank")
	}
	if o.Version == "" {
		o.Version = d.kind.version.ask(ctx, cmd)
	}
	if o.Version == "" && len(d.cfg.Command) == 0 && d.kind.version.module != "" {
		return fleet.EngineOffer{}, false // there is a Python, but not the engine in it
	}
	return o, true
}

// Launch implements agent.Driver.
func (d driver) Launch(in agent.LaunchInput) (shim.Program, shim.Recipe, error) {
	for _, arg := range in.Order.Spec.Engine.Args {
		flag, _, _ := strings.Cut(arg, "=")
		if d.kind.reserves(flag) {
			return shim.Program{}, shim.Recipe{}, fmt.Errorf("engine.args sets %s, which comes from the placement", flag)
		}
	}
	path, err := lookPath(d.commandLine()[0])
	if err != nil {
		return shim.Program{}, shim.Recipe{}, fmt.Errorf("the program of the driver %s: %w", d.kind.name, err)
	}
	cmd := append([]string{path}, d.commandLine()[1:]...)
	p, r, err := d.kind.launch(in, cmd)
	p.Master = in.Master
	return p, r, err
}

// reserves says whether an argument means a reserved flag, in any of the forms in which the programs take one: with an underscore for a dash, with
// one dash for two, or abbreviated.
func (k kind) reserves(flag string) bool {
	if !strings.HasPrefix(flag, "-") {
		return false // a value
	}
	name := plain(flag)
	return slices.ContainsFunc(k.reserved, func(r string) bool {
		return name == plain(r) || k.abbreviates && name != "" && strings.HasPrefix(plain(r), name) && strings.HasPrefix(flag, "--") && !slices.Contains(k.whole, name)
	})
}

func plain(flag string) string {
	return strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-")
}

// multi says whether the order is a shard of a replica over several nodes, and headless whether it is one that serves no requests.
func multi(in agent.LaunchInput) bool    { return len(in.Hosts) > 1 }
func headless(in agent.LaunchInput) bool { return in.Order.Rank > 0 }

// local is where an engine that needs a TCP port listens: on loopback, so that the door is the only way in from elsewhere.
func local(in agent.LaunchInput) string { return "127.0.0.1:" + strconv.Itoa(in.Port) }

// cuda pins an engine to its cards. Engines have crashed on UUIDs for years, so the indices of this moment are used, in the order of the PCI bus,
// which is the order that NVML counts in.
func cuda(in agent.LaunchInput) []string {
	texts := make([]string, len(in.GPUs))
	for i, g := range in.GPUs {
		texts[i] = strconv.Itoa(g)
	}
	return []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + strings.Join(texts, ",")}
}

// names are the model's name and aliases, each of which clients may send.
func names(in agent.LaunchInput) []string {
	return append([]string{in.Order.Spec.Name}, in.Order.Spec.Aliases...)
}

// has says whether the model's own arguments set one of the flags.
func has(in agent.LaunchInput, flags ...string) bool {
	return slices.ContainsFunc(in.Order.Spec.Engine.Args, func(arg string) bool {
		flag, _, _ := strings.Cut(arg, "=")
		return slices.Contains(flags, flag)
	})
}

// sets says whether the model's own arguments give the flag that value, in one argument or in two.
func sets(in agent.LaunchInput, flag, value string) bool {
	args := in.Order.Spec.Engine.Args
	for i, arg := range args {
		if arg == flag+"="+value || arg == flag && i+1 < len(args) && args[i+1] == value {
			return true
		}
	}
	return false
}

// shareOf returns which part of its card a replica that shares one may use, rounded down to a thousandth; 0 for whole cards.
func shareOf(in agent.LaunchInput) float64 {
	if len(in.Order.Claims) != 1 || in.Order.Claims[0].Share == 0 {
		return 0
	}
	for _, g := range in.All {
		if g.UUID == in.Order.Claims[0].GPU && g.Memory > 0 {
			return float64(int64(in.Order.Claims[0].Share)*1000/int64(g.Memory)) / 1000
		}
	}
	return 0
}
