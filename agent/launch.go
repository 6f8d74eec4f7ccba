package agent

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"berth/agent/shim"
	"berth/fleet/wire"
)

// EnvReplica names the replica in the environment of its engine, for whoever looks at the processes of a machine.
const EnvReplica = "BERTH_REPLICA"

// workshop turns orders into command lines. Everything that an API call could ask for and a node does not allow is refused here.
type workshop struct {
	cfg     *Config
	machine *machine
	ports   *ports
	sockets string
}

func newWorkshop(cfg *Config, d *disk, m *machine) (*workshop, error) {
	w := &workshop{cfg: cfg, machine: m, ports: newPorts(cfg)}
	var err error
	w.sockets, err = socketFolder(cfg.Sockets, d.path("sockets"))
	return w, err
}

// program builds the command line of one start. Its error is a reason that an operator reads.
func (w *workshop) program(ctx context.Context, o wire.Order) (shim.Program, shim.Recipe, error) {
	fail := func(err error) (shim.Program, shim.Recipe, error) { return shim.Program{}, shim.Recipe{}, err }
	name := o.Spec.Engine.Driver
	driver, ok := w.cfg.driver(name)
	engine, allowed := w.cfg.Engines[name]
	if !ok || !allowed {
		return fail(fmt.Errorf("this node does not offer the engine %q", name))
	}
	if err := checkArgs(name, o.Spec.Engine.Args, engine.AllowArgs); err != nil {
		return fail(err)
	}
	weights, err := resolveWeights(name, o.Spec.Engine.Weights, engine, w.cfg.ModelRoots)
	if err != nil {
		return fail(err)
	}
	in := LaunchInput{Order: o, Engine: engine, Weights: weights, ModelRoots: w.cfg.ModelRoots, BindHost: w.cfg.EngineBind, Sockets: w.sockets}
	if in.GPUs, in.All, err = w.machine.resolve(o.Claims); err != nil {
		return fail(err)
	}
	if err := w.places(ctx, o, &in); err != nil {
		return fail(err)
	}
	program, recipe, err := driver.Launch(in)
	if err != nil {
		return fail(err)
	}
	program.Env = append(append(slices.Clone(w.cfg.EngineEnv), EnvReplica+"="+o.Replica), program.Env...)
	if o.Rank == 0 {
		program.Master = in.Master
	}
	w.ports.keep(o.Replica, program)
	return program, recipe, nil
}

// places fills in where the engine listens and where its ranks are.
func (w *workshop) places(ctx context.Context, o wire.Order, in *LaunchInput) error {
	gang := len(o.Ranks) > 1
	n := 1 + enginePorts
	if gang {
		n++
	}
	ports, err := w.ports.take(ctx, o.Replica, n)
	if err != nil {
		return err
	}
	in.Port, in.Ports = ports[0], ports[1:1+enginePorts]
	in.Hosts = []string{w.cfg.EngineBind}
	if !gang {
		return nil
	}
	in.Hosts = make([]string, len(o.Ranks))
	for i, r := range o.Ranks {
		in.Hosts[i] = r.Host
	}
	in.Master = o.Master
	if o.Rank == 0 {
		in.Master = net.JoinHostPort(in.Hosts[0], strconv.Itoa(ports[n-1]))
	}
	return nil
}

// launch is everything that a new shim needs. What is known of the one before it carries over: its door, how often it was restarted.
func (w *workshop) launch(ctx context.Context, o wire.Order, before *shim.Dead) (shim.Launch, error) {
	w.ports.release(o.Replica) // nothing of the shim before runs any more
	program, recipe, err := w.program(ctx, o)
	if err != nil {
		return shim.Launch{}, err
	}
	l := shim.Launch{
		Order: o, Program: program, Recipe: recipe, Bind: w.cfg.EngineBind,
		FirstPort: w.cfg.EnginePorts.First, LastPort: w.cfg.EnginePorts.Last, InsecureNoTLS: w.cfg.Policy.InsecureNoTLS,
	}
	if before == nil {
		return l, nil
	}
	again := before.Again()
	l.Door = again.Door
	if o.Start <= before.Last.Start { // the same start goes on: its end counts as a restart
		l.Restarts, l.Exit = again.Restarts, again.Exit
	}
	return l, nil
}
