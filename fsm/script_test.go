package fsm

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"berth/fleet"
	"berth/fleet/wire"
)

// script runs the small language of the golden scripts on one machine. Every command is one entry: it is encoded, and its index is the next one.
//
//	WORD...  key=value...       "quoted words" keep their blanks
//	$1, $2...                   the first, second... replica that the script has placed
type script struct {
	t      *testing.T
	m      *Machine
	index  uint64
	now    fleet.Time
	placed []string
	saved  *State
}

func newScript(t *testing.T) *script {
	return &script{t: t, m: New(), now: 1_796_083_200_000} // 2026-12-01
}

// do runs one line and returns its trace.
func (s *script) do(text string) []string {
	for i := len(s.placed); i > 0; i-- {
		text = strings.ReplaceAll(text, "$"+itoa(i), s.placed[i-1])
	}
	l := parseLine(s.t, text)
	switch l.word(0) {
	case "orders":
		return s.orders(l.word(1))
	case "table":
		return s.table()
	case "claims":
		return s.claims(l.word(1))
	case "wait":
		var d fleet.Duration
		must(s.t, d.UnmarshalText([]byte(l.word(1))))
		s.now += fleet.Time(d.Std().Milliseconds())
		return nil
	case "save-and-restore":
		before := s.m.State().Fingerprint()
		s.m = restored(s.t, s.m.State())
		return []string{fmt.Sprintf("equal fingerprints: %v", before == s.m.State().Fingerprint())}
	case "save":
		s.saved = s.m.State()
		return nil
	case "restore":
		return s.restore(l)
	}
	c := s.command(l)
	if c == nil {
		s.t.Fatalf("no such command: %s", text)
	}
	return s.apply(Meta{Request: l.opts["id"], By: l.opts["by"], Level: l.num("level", 0)}, c)
}

// restore puts what save has kept in the place of the state, as a restore from a file does, and returns every row that is not as it was saved.
func (s *script) restore(l line) []string {
	image, err := s.saved.WithIdentity(s.saved.Cluster().ID, uint64(l.num("epoch", 0)), s.now)
	must(s.t, err)
	s.m = restored(s.t, image)
	return changes(s.saved, s.m.State())
}

// withHashes gives what is said to run the hash of the spec of its generation, or of its model as it is asked for now.
func (s *script) withHashes(c NodeRegister) NodeRegister {
	for i := range c.Registration.Running {
		run := &c.Registration.Running[i]
		generation := run.Generation
		if m, ok := s.m.State().Model(run.Model); ok && generation == 0 {
			generation = m.Generation
		}
		if spec, ok := s.m.State().Spec(run.Model, generation); ok {
			run.RunHash = spec.RunHash()
		}
	}
	return c
}

// apply encodes and applies one command, and returns its outcome and every row that it changed.
func (s *script) apply(meta Meta, c Command) []string {
	s.index++
	meta.At = s.now
	data, err := Encode(meta, c)
	if err != nil {
		return []string{"not encoded: " + err.Error()}
	}
	before := s.m.State()
	o, err := s.m.Apply(s.index, data)
	if err != nil {
		return []string{"STOPS THE PEER: " + err.Error()}
	}
	for r := range s.m.State().Replicas() {
		if _, ok := before.Replica(r.ID); !ok {
			s.placed = append(s.placed, r.ID)
		}
	}
	return append(outcomeLines(o), changes(before, s.m.State())...)
}

func (s *script) command(l line) Command {
	switch l.word(0) {
	case "create":
		return ClusterCreate{ID: l.word(1)}
	case "announce":
		return ServerAnnounce{Server: fleet.Server{ID: l.word(1), HTTP: l.opts["http"], Raft: l.opts["raft"], MaxLevel: l.num("max", 1)}}
	case "forget-server":
		return ServerForget{ID: l.word(1)}
	case "level":
		return LevelRaise{Level: l.num("to", 1)}
	case "settings":
		set := fleet.DefaultSettings()
		set.NodeGrace = l.dur("grace", set.NodeGrace)
		return SettingsSet{Settings: set}
	case "freeze":
		return FreezeSet{Freeze: &fleet.Freeze{Reason: l.word(1)}}
	case "thaw":
		return FreezeSet{}
	case "epoch":
		return EpochRaise{Epoch: uint64(l.num("to", 0))}
	case "model":
		return ModelApply{Spec: l.spec(), IfMatch: l.index("match")}
	case "scale":
		return ModelScale{Model: l.word(1), Replicas: l.num("to", 0)}
	case "delete":
		return ModelDelete{Model: l.word(1), IfMatch: l.index("match")}
	case "pause", "resume":
		return RolloutPause{Model: l.word(1), Paused: l.word(0) == "pause"}
	}
	switch c := nodeCommand(l).(type) {
	case nil:
		return s.replicaCommand(l)
	case NodeRegister:
		return s.withHashes(c)
	default:
		return c
	}
}

func nodeCommand(l line) Command {
	switch l.word(0) {
	case "register":
		return NodeRegister{Registration: l.registration()}
	case "cordon":
		return NodeAdmin{Node: l.word(1), Admin: fleet.Cordoned, Reason: l.word(2)}
	case "uncordon":
		return NodeAdmin{Node: l.word(1)}
	case "drain":
		return NodeDrain{Node: l.word(1), Deadline: l.dur("deadline", 600_000_000_000), Reason: l.word(2)}
	case "drain-end":
		return NodeDrainEnd{Node: l.word(1), State: l.word(2)}
	case "label":
		set := map[string]*string{l.word(2): nil}
		if v, ok := l.opts["to"]; ok {
			set[l.word(2)] = &v
		}
		return NodeLabel{Node: l.word(1), Set: set}
	case "forget":
		return NodeForget{Node: l.word(1)}
	case "silent":
		return NodeLiveness{Node: l.word(1), Instance: uint64(l.num("instance", 1)), Unreachable: true, Reason: l.word(2)}
	case "heard":
		return NodeLiveness{Node: l.word(1), Instance: uint64(l.num("instance", 1))}
	}
	return nil
}

func (s *script) replicaCommand(l line) Command {
	switch l.word(0) {
	case "plan":
		return PlanApply{Plan: fleet.Plan{Items: l.items()}}
	case "report":
		instance := 1
		if n, ok := s.m.State().Node(l.word(1)); ok {
			instance = int(n.Instance)
		}
		return ReplicaTransitions{Node: l.word(1), Instance: uint64(l.num("instance", instance)), Items: []wire.Transition{s.transition(l)}}
	case "stop":
		return ReplicaStop{Replica: l.word(1), Reason: l.word(2)}
	case "restart":
		return ReplicaRestart{Replica: l.word(1), Reason: l.word(2)}
	case "fail":
		return ReplicaFail{Replica: l.word(1), Reason: l.word(2)}
	case "withdraw":
		r, ok := s.m.State().Replica(l.word(1))
		if !ok {
			return ReplicaWithdraw{Replica: l.word(1), Reason: l.word(2)}
		}
		return ReplicaWithdraw{Replica: l.word(1), Order: fleet.Index{Epoch: r.Order.Epoch, N: uint64(l.num("order", int(r.Order.N)))}, Reason: l.word(2)}
	}
	return nil
}

// spec reads: model NAME [gpus=N|share=SIZE] [nodes=N] [min=N] [max=N] [aliases=a,b] [classes=x,y] [args=..] [priority=N] [unload=DUR].
func (l line) spec() fleet.ModelSpec {
	sp := fleet.DefaultedSpec()
	sp.Version, sp.Kind, sp.Name = 1, "model", l.word(1)
	sp.Engine = fleet.EngineSpec{Driver: "sim", Weights: "weights", Args: l.list("args")}
	sp.Placement.Nodes = l.num("nodes", 1)
	sp.Placement.GPUsPerNode = l.num("gpus", 0)
	if v, ok := l.opts["share"]; ok {
		must(l.t, sp.Placement.GPUShare.UnmarshalText([]byte(v)))
	} else if sp.Placement.GPUsPerNode == 0 {
		sp.Placement.GPUsPerNode = 1
	}
	if v, ok := l.opts["memory"]; ok {
		must(l.t, sp.Placement.GPUMemory.UnmarshalText([]byte(v)))
	}
	sp.Placement.Classes = l.list("classes")
	sp.Aliases = l.list("aliases")
	sp.Replicas = fleet.ReplicaCount{Min: l.num("min", 1), Max: l.num("max", max(1, l.num("min", 1)))}
	sp.Priority = l.num("priority", 50)
	sp.Idle.UnloadAfter = l.dur("unload", 0)
	return sp
}

// registration reads: register NODE [id=ID] [instance=N] [at=ADDR] [fabric=F] [gpus=g0,g1..] [bad=g1] [foreign=g2] [class=C] [memory=SIZE]
// [holds=g3] [runs=REPLICA/RANK/START[/ready][@MODEL[:GENERATION]@GPU@ORDER],...].
func (l line) registration() wire.Registration {
	name := l.word(1)
	reg := wire.Registration{
		Version: 1, Name: name, ID: "id-" + name, Instance: uint64(l.num("instance", 1)), Address: name + ":7310", EngineAddress: name,
		Cluster: l.opts["cluster"], Inventory: fleet.Inventory{Source: "file", Fabric: l.opts["fabric"]},
	}
	if v, ok := l.opts["id"]; ok {
		reg.ID = v
	}
	if v, ok := l.opts["at"]; ok {
		reg.Address, reg.EngineAddress = v+":7310", v
	}
	class, memory := "h100", 80*fleet.GiB
	if v, ok := l.opts["class"]; ok {
		class = v
	}
	if v, ok := l.opts["memory"]; ok {
		must(l.t, memory.UnmarshalText([]byte(v)))
	}
	for i, g := range l.list("gpus") {
		gpu := fleet.GPU{UUID: g, Index: i, Class: class, Memory: memory, Health: fleet.Healthy}
		if g == l.opts["bad"] {
			gpu.Health, gpu.Reason = fleet.Unhealthy, "XID 79"
		}
		gpu.Foreign = g == l.opts["foreign"]
		reg.Inventory.GPUs = append(reg.Inventory.GPUs, gpu)
	}
	if held := l.list("holds"); held != nil {
		reg.Unmanaged = []fleet.Unmanaged{{What: "python", PID: 7, GPUs: held}}
	}
	for _, r := range l.list("runs") {
		reg.Running = append(reg.Running, running(l.t, r))
	}
	return reg
}

func running(t *testing.T, text string) wire.Running {
	s, more, _ := strings.Cut(text, "@")
	f := strings.Split(s, "/")
	rank, err := strconv.Atoi(f[1])
	must(t, err)
	start, err := strconv.ParseUint(f[2], 10, 64)
	must(t, err)
	run := wire.Running{Replica: f[0], Rank: rank, Start: start, Shim: 7, Model: "?", Claims: []fleet.Claim{{GPU: "g0"}}}
	if run.Ready = len(f) > 3; run.Ready {
		run.Door = &fleet.Door{Address: "door-" + f[0], Key: "key"}
	}
	if m := strings.Split(more, "@"); len(m) == 3 {
		name, generation, old := strings.Cut(m[0], ":")
		run.Model, run.Claims[0].GPU = name, m[1]
		if old {
			run.Generation, err = strconv.ParseUint(generation, 10, 64)
			must(t, err)
		}
		must(t, run.Order.UnmarshalText([]byte(m[2])))
	}
	return run
}

// items reads one or more plan items, parted by a word "and":
//
//	place MODEL GEN NODE:g0,g1 [NODE:g0,g1]      stop REPLICA REASON [mark=N] [want=N] [failed=REASON]
//	again REPLICA START REASON                   wake MODEL
func (l line) items() []fleet.PlanItem {
	var out []fleet.PlanItem
	rest := l.words[1:]
	for len(rest) > 0 {
		end := len(rest)
		for i, w := range rest {
			if w == "and" {
				end = i
				break
			}
		}
		out = append(out, l.item(rest[:end]))
		rest = rest[min(end+1, len(rest)):]
	}
	return out
}

func (l line) item(w []string) fleet.PlanItem {
	switch w[0] {
	case "place":
		gen, err := strconv.ParseUint(w[2], 10, 64)
		must(l.t, err)
		p := fleet.PlaceItem{Model: w[1], Generation: gen}
		for _, s := range w[3:] {
			p.Shards = append(p.Shards, l.shard(s))
		}
		return fleet.PlanItem{Place: &p}
	case "stop":
		s := fleet.StopItem{Replica: w[1], Reason: w[2], Failed: l.opts["failed"]}
		if _, ok := l.opts["mark"]; ok {
			s.Mark = &fleet.Mark{Shim: 1, Engine: 1, Admissions: uint64(l.num("mark", 0))}
		}
		if _, ok := l.opts["want"]; ok {
			n := l.num("want", 0)
			s.Want = &n
		}
		return fleet.PlanItem{Stop: &s}
	case "again":
		start, err := strconv.ParseUint(w[2], 10, 64)
		must(l.t, err)
		return fleet.PlanItem{Restart: &fleet.RestartItem{Replica: w[1], Start: start, Reason: w[3]}}
	case "wake":
		return fleet.PlanItem{Wake: &fleet.WakeItem{Model: w[1]}}
	}
	return fleet.PlanItem{}
}

func (l line) shard(s string) fleet.Shard {
	node, gpus, _ := strings.Cut(s, ":")
	shard := fleet.Shard{Node: node}
	for _, g := range strings.Split(gpus, ",") {
		gpu, size, shared := strings.Cut(g, "*")
		c := fleet.Claim{GPU: gpu}
		if shared {
			must(l.t, c.Share.UnmarshalText([]byte(size)))
		}
		shard.Claims = append(shard.Claims, c)
	}
	return shard
}

// transition reads: report NODE REPLICA/RANK TO [released] [order=E.N] [start=N] [door=ADDR] [master=ADDR] [exit=CODE] [reason=..]. Without
// order and start it answers the newest order.
func (s *script) transition(l line) wire.Transition {
	id, rank, _ := strings.Cut(l.word(2), "/")
	n, err := strconv.Atoi(rank)
	must(l.t, err)
	t := wire.Transition{Replica: id, Rank: n, To: l.word(3), Reason: l.opts["reason"], Master: l.opts["master"], Released: l.word(4) == "released"}
	if r, ok := s.m.State().Replica(id); ok {
		t.Order, t.Start = r.Order, r.Start
	}
	t.Start = uint64(l.num("start", int(t.Start)))
	if i := l.index("order"); i != nil {
		t.Order = *i
	}
	if v, ok := l.opts["door"]; ok {
		t.Door = &fleet.Door{Address: v, Key: "key-of-" + id}
	}
	if _, ok := l.opts["exit"]; ok {
		t.Exit = &fleet.Exit{Code: l.num("exit", 0)}
	}
	return t
}
