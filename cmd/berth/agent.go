package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"berth/agent"
	"berth/agent/engine"
	"berth/agent/gpu"
	"berth/agent/gpu/nvml"
	"berth/internal/durable"
	"berth/internal/listen"
	"berth/internal/release"
	"berth/roles"
)

type agentFlags struct {
	*common
	file        agent.File
	peerURLs    []string
	gossipBind  string
	gpus        string
	engineBind  string
	ports       string
	modelRoots  []string
	stopEngines bool
}

func agentCmd() *cobra.Command {
	f := &agentFlags{common: newCommon("agent")}
	c := &cobra.Command{
		Use: "agent", Short: "run the agent of a GPU node", Args: cobra.NoArgs,
		Long: "Run the agent of a GPU node: it measures the cards, runs the engines that the peers order, and reports. Engines go on when it ends.",
		RunE: func(c *cobra.Command, _ []string) error {
			cfg, join, err := f.resolve(c)
			if err != nil {
				return err
			}
			return f.run(c, f.ops(), func(ctx context.Context, log *slog.Logger) error {
				cfg.Logger = log
				closeProbe, err := f.equip(&cfg)
				if err != nil {
					return err
				}
				defer closeProbe()
				return roles.RunAgent(ctx, cfg, join)
			})
		},
	}
	f.add(c)
	return c
}

func (f *agentFlags) add(c *cobra.Command) {
	f.flags(c, "127.0.0.1:7310")
	s := c.Flags()
	s.StringSliceVar(&f.peerURLs, "peer", nil, "URL of a peer, instead of --join, where this machine may not gossip; repeats")
	s.StringVar(&f.gossipBind, "gossip-bind", "", "gossip address to listen on (default: a free port on the host of --bind)")
	s.StringVar(&f.gpus, "gpus", defaultGPUs(), "what measures the cards: nvml, nvidia-smi, file:PATH or none")
	s.StringVar(&f.engineBind, "engine-bind", "", "host that the replicas' doors listen on (default: the host of --bind)")
	s.StringVar(&f.ports, "engine-ports", "20000-20999", "ports that doors and engines may take")
	s.StringSliceVar(&f.modelRoots, "model-roots", nil, "folders that weights may lie in")
	s.BoolVar(&f.stopEngines, "stop-engines-on-exit", false, "end every engine when the agent ends, for trials")
}

func defaultGPUs() string {
	if nvml.Available {
		return "nvml"
	}
	return "nvidia-smi"
}

// resolve fills the flags from all sources and checks what can be checked without touching the machine.
func (f *agentFlags) resolve(c *cobra.Command) (agent.Config, roles.Join, error) {
	if err := f.settings(c, "labels", "engines"); err != nil {
		return agent.Config{}, roles.Join{}, err
	}
	if f.config != "" {
		file, err := agent.ReadFile(f.config)
		if err != nil {
			return agent.Config{}, roles.Join{}, usageError{err}
		}
		f.file = file
	}
	if err := peerURLs(f.peerURLs); err != nil {
		return agent.Config{}, roles.Join{}, err
	}
	if f.engineBind == "" {
		f.engineBind = hostPart(f.bind)
	}
	ports, err := agent.ParsePorts(f.ports)
	if err != nil {
		return agent.Config{}, roles.Join{}, usageError{fmt.Errorf("--engine-ports: %w", err)}
	}
	cfg := agent.Config{
		Name: f.name, DataDir: f.dataDir, Bind: f.bind, Advertise: f.advertised(f.bind), Release: release.Version,
		EngineBind: f.engineBind, EnginePorts: ports, ModelRoots: f.modelRoots, Labels: f.file.Labels,
		Network: listen.System, Policy: f.policy(), StopEnginesOnExit: f.stopEngines, Engines: map[string]agent.EngineConfig{},
		EngineEnv: engineEnv(os.Environ()),
	}
	for name, e := range f.file.Engines {
		cfg.Engines[name] = agent.EngineConfig(e)
	}
	join := roles.Join{Seeds: f.join, PeerURLs: f.peerURLs, Bind: f.gossipBind, Advertise: hostOf(f.advertise, f.gossipBind)}
	if join.Bind == "" {
		join.Bind = withPort(hostPart(f.bind), "x:0")
	}
	if err := join.Validate(); err != nil {
		return cfg, join, usageError{err}
	}
	return cfg, join, nil
}

// equip gives the agent what touches the machine: drivers, inventory, and the maker of shims. The function ends the GPU probe.
func (f *agentFlags) equip(cfg *agent.Config) (func(), error) {
	drivers, err := f.drivers(cfg)
	if err != nil {
		return nil, usageError{err}
	}
	cfg.Drivers = drivers
	cfg.Maker, err = shimMaker(cfg)
	if err != nil {
		return nil, err
	}
	inv, end, err := inventory(f.gpus, f.name, f.dataDir)
	if err != nil {
		return nil, err
	}
	cfg.Inventory = inv
	return end, nil // the agent checks the whole when it is made, with the peers that only joining gives it
}

// drivers makes the configured drivers, or those whose programs are in PATH. A node whose cards are written in a file is a simulated one, and
// offers the simulated engine as well.
func (f *agentFlags) drivers(cfg *agent.Config) ([]agent.Driver, error) {
	if len(cfg.Engines) == 0 && !strings.HasPrefix(f.gpus, "file:") {
		var found []agent.Driver
		found, cfg.Engines = engine.Found()
		return found, nil
	}
	if len(cfg.Engines) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cfg.Engines["sim"] = agent.EngineConfig{Command: []string{self, "engine"}, AllowArgs: []string{"*"}, Hub: true, Version: "1.0"}
	}
	var all []agent.Driver
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(cfg.Engines)) {
		d, err := engine.New(name, cfg.Engines[name])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, d)
	}
	return all, errors.Join(errs...)
}

// inventory makes what measures the cards; what must outlive the agent of that is kept in the data directory.
func inventory(gpus, node, dataDir string) (agent.Inventory, func(), error) {
	nothing := func() {}
	path, isFile := strings.CutPrefix(gpus, "file:")
	switch {
	case isFile:
		inv, err := gpu.NewFile(path, node)
		if err != nil {
			return nil, nothing, usageError{err}
		}
		return inv, nothing, nil
	case gpus == "none":
		return gpu.None{Note: "started with --gpus none"}, nothing, nil
	case gpus == "nvidia-smi":
		return gpu.NewMeasured("nvidia-smi", gpu.SMI{}, ownProcess), nothing, nil
	case gpus == "nvml" && nvml.Available:
		self, err := os.Executable()
		if err != nil {
			return nil, nothing, err
		}
		probe := gpu.NewProbe(self, "gpu-probe")
		cards := gpu.RememberXIDs(probe, filepath.Join(dataDir, "xids.json"), durable.BootID())
		return gpu.NewMeasured("nvml", cards, ownProcess), func() { closeProbe(probe) }, nil
	case gpus == "nvml":
		return nil, nothing, usageError{errors.New("this program was built without cgo and cannot call NVML; use --gpus nvidia-smi")}
	}
	return nil, nothing, usageError{fmt.Errorf("--gpus %q is not known; use nvml, nvidia-smi, file:PATH or none", gpus)}
}

func closeProbe(p *gpu.Probe) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = p.Close(ctx) // one that hangs in the driver ends with the driver
}

// ownProcess says whether a process descends from a shim of Berth: a shim marks the environment of its engine.
func ownProcess(pid int) bool {
	env, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "environ"))
	return err == nil && strings.Contains(string(env), "BERTH_ENGINE_OF=")
}

// engineEnv is the agent's own environment without what configures Berth: engines need PATH, HOME and a hub's token, but nothing of ours.
func engineEnv(environ []string) []string {
	return slices.DeleteFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, "BERTH_") })
}
