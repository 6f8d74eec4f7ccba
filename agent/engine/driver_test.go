package engine

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"berth/agent"
	"berth/agent/shim"
	"berth/fleet"
	"berth/fleet/wire"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the golden command lines")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// programs makes a folder of programs that answer --version, and puts it first in PATH.
func programs(t *testing.T, script map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range script {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func input(driver string, gpus, nodes, rank int, args ...string) agent.LaunchInput {
	spec := fleet.DefaultedSpec()
	spec.Name, spec.Aliases = "org/Model-8B", []string{"model"}
	spec.Engine = fleet.EngineSpec{Driver: driver, Weights: "/srv/models/m", Args: args}
	in := agent.LaunchInput{
		Order: wire.Order{Replica: "r-1.7.1", Generation: 2, Rank: rank, Start: 1, Spec: spec}, Weights: "/srv/models/m",
		Port: 20100, BindHost: "192.0.2.17", Sockets: "/run/berth/r", Hosts: []string{"192.0.2.17"},
	}
	for i := range gpus {
		in.GPUs = append(in.GPUs, i)
		in.All = append(in.All, fleet.GPU{UUID: fmt.Sprintf("GPU-%d", i), Index: i, Memory: 80 * fleet.GiB})
		in.Order.Claims = append(in.Order.Claims, fleet.Claim{GPU: fmt.Sprintf("GPU-%d", i)})
	}
	if nodes > 1 {
		in.Hosts, in.Master = []string{"192.0.2.17", "192.0.2.18"}, "192.0.2.17:20200"
	}
	return in
}

func render(p shim.Program, r shim.Recipe, err error) string {
	if err != nil {
		return "refused: " + err.Error() + "\n"
	}
	args := append([]string{filepath.Base(p.Args[0])}, p.Args[1:]...)
	text := strings.Join(p.Env, " ") + "\n  " + strings.Join(args, " ") + "\n  listens on " + p.Engine
	if p.Engine == "" {
		text = strings.TrimSuffix(text, "listens on ") + "headless"
	}
	if r.Token != nil {
		text += fmt.Sprintf("; ready when GET %s is 200 and POST %s %s is", r.Health, r.Token.Path, r.Token.Body)
	}
	return text + "\n"
}

func TestGoldenCommandLines(t *testing.T) {
	programs(t, map[string]string{"vllm": "", "python3": "", "llama-server": "", "berth": "", "serve-it": ""})
	commands := map[string][]string{
		"sim":     {"berth", "engine"},
		"command": {"serve-it", "--listen", "127.0.0.1:{{.Port}}", "--name={{.Model}}", "--gpus", "{{.GPUs}}", "--rank", "{{.Rank}}/{{.Nodes}}", "--meet={{.Master}}"},
	}
	var out strings.Builder
	for _, name := range fleet.Drivers() {
		d, err := New(name, agent.EngineConfig{Command: commands[name]})
		if name == "vllm" || name == "sglang" || name == "llamacpp" {
			d, err = New(name, agent.EngineConfig{})
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what string
			in   agent.LaunchInput
		}{
			{"one card", input(name, 1, 1, 0)},
			{"eight cards", input(name, 8, 1, 0, "--max-model-len=32768")},
			{"two nodes, rank 0", input(name, 8, 2, 0)},
			{"two nodes, rank 1", input(name, 8, 2, 1)},
			{"20GiB of a card", share(input(name, 1, 1, 0))},
			{"embeddings", input(name, 1, 1, 0, embedding(name))},
			{"a flag that comes from the placement", input(name, 1, 1, 0, "--host=0.0.0.0")},
		} {
			fmt.Fprintf(&out, "%s, %s\n  %s\n", name, c.what, render(d.Launch(c.in)))
		}
	}
	golden := filepath.Join("testdata", "commands.txt")
	if *rewrite {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("command lines have changed; read the difference, then `make golden`:\n%s", out.String())
	}
}

// A flag that comes from the placement cannot be set in another of the forms that a program takes: a model could make its engine listen beside its door.
func TestReservedInAnyForm(t *testing.T) {
	programs(t, map[string]string{"vllm": "", "python3": "", "llama-server": "", "berth": ""})
	for _, c := range []struct {
		driver, arg string
		refused     bool
	}{
		{"vllm", "--api_key=x", true}, {"vllm", "--served_model_name", true}, {"vllm", "--hos=0.0.0.0", true}, {"vllm", "--tensor-parallel", true},
		{"vllm", "--device=cuda", false}, {"vllm", "--max-model-len=1", false}, {"vllm", "host", false}, {"vllm", "--max_num_seqs", false},
		{"sglang", "--por", true}, {"sglang", "--dist_init_addr=x", true}, {"sglang", "--tp_size", true}, {"sglang", "--context-length=1", false},
		{"llamacpp", "--api_key", true}, {"llamacpp", "-hf", true}, {"llamacpp", "-h", false}, {"llamacpp", "-c", false},
		{"sim", "-host=0.0.0.0", true}, {"sim", "-port", true}, {"sim", "--load-time=1s", false},
	} {
		cfg := agent.EngineConfig{AllowArgs: []string{"*"}}
		if c.driver == "sim" {
			cfg.Command = []string{"berth", "engine"}
		}
		d, err := New(c.driver, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = d.Launch(input(c.driver, 1, 1, 0, c.arg)); (err != nil) != c.refused {
			t.Errorf("%s %s: %v; refused should be %t", c.driver, c.arg, err, c.refused)
		}
	}
}

func TestEachNameIsAnArgument(t *testing.T) {
	programs(t, map[string]string{"serve-it": ""})
	d, err := New("command", agent.EngineConfig{Command: []string{"serve-it", "--names", "{{.Names}}", "--all={{.Names}}"}})
	if err != nil {
		t.Fatal(err)
	}
	in := input("command", 1, 1, 0)
	in.Order.Spec.Aliases = []string{"short", "other"}
	p, _, err := d.Launch(in)
	name := in.Order.Spec.Name
	if want := []string{"--names", name, "short", "other", "--all=" + name + ",short,other"}; err != nil || !slices.Equal(p.Args[1:], want) {
		t.Errorf("%q, %v; want %q", p.Args, err, want)
	}
}

func share(in agent.LaunchInput) agent.LaunchInput {
	in.Order.Claims[0].Share = 20 * fleet.GiB
	return in
}

func TestIndicesAreOfThisMomentAndInTheOrderOfTheClaims(t *testing.T) {
	programs(t, map[string]string{"vllm": ""})
	d, err := New("vllm", agent.EngineConfig{})
	if err != nil {
		t.Fatal(err)
	}
	in := input("vllm", 2, 1, 0)
	in.GPUs = []int{5, 3}
	p, _, err := d.Launch(in)
	if err != nil || p.Env[1] != "CUDA_VISIBLE_DEVICES=5,3" || strings.Contains(strings.Join(append(p.Args, p.Env...), " "), "GPU-") {
		t.Errorf("got %v %v, %v", p.Env, p.Args, err)
	}
}

func TestVersionsAreFoundInWhatEnginesPrint(t *testing.T) {
	for text, want := range map[string]string{
		"0.18.2\n": "0.18.2", "INFO 12-01 10:00:00 [__init__.py] platform\nvllm 0.33.0rc1": "0.33.0rc1",
		"version: 6123 (4b3c1f2)\nbuilt with cc": "6123", "version: v0.4.1": "0.4.1", "b6123": "6123", "no idea": "",
	} {
		if got := findVersion(text); got != want {
			t.Errorf("%q: found %q, want %q", text, got, want)
		}
	}
}

func TestAnOfferIsWhatTheProgramSaysOfItself(t *testing.T) {
	programs(t, map[string]string{"vllm": `test "$1" = --version && echo 0.18.2`, "llama-server": `echo "version: 6123 (x)" >&2`, "broken": "exit 3"})
	for _, c := range []struct {
		driver string
		cfg    agent.EngineConfig
		want   fleet.EngineOffer
		ok     bool
	}{
		{"vllm", agent.EngineConfig{Hub: true}, fleet.EngineOffer{Driver: "vllm", Version: "0.18.2", Hub: true, SpanNodes: true}, true},
		{"llamacpp", agent.EngineConfig{Version: "0.4.1"}, fleet.EngineOffer{Driver: "llamacpp", Version: "0.4.1"}, true},
		{"llamacpp", agent.EngineConfig{}, fleet.EngineOffer{Driver: "llamacpp", Version: "6123"}, true},
		{"vllm", agent.EngineConfig{Command: []string{"broken"}}, fleet.EngineOffer{Driver: "vllm", SpanNodes: true}, true},
		{"vllm", agent.EngineConfig{Command: []string{"/nowhere/vllm"}}, fleet.EngineOffer{}, false},
		{"command", agent.EngineConfig{Command: []string{"broken", "{{.Rank}}"}}, fleet.EngineOffer{Driver: "command", SpanNodes: true}, true},
	} {
		d, err := New(c.driver, c.cfg)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := d.Offer(context.Background())
		if ok != c.ok || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s %v: %+v %v, want %+v %v", c.driver, c.cfg.Command, got, ok, c.want, c.ok)
		}
	}
}

func TestAWrongConfigurationIsSaidAtTheStart(t *testing.T) {
	for _, c := range []struct {
		driver string
		cmd    []string
		want   string
	}{
		{"tgi", []string{"x"}, "no driver of that name"},
		{"sim", nil, "has no command"},
		{"command", []string{"x", "{{.Prot}}"}, "Prot"},
		{"command", []string{"x", "{{"}, "not a template"},
	} {
		if _, err := New(c.driver, agent.EngineConfig{Command: c.cmd}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v: got %v", c.driver, c.cmd, err)
		}
	}
}

// embedding is the flag that makes an engine embed only.
func embedding(driver string) string {
	if flag, ok := map[string]string{"vllm": "--runner=pooling", "sglang": "--is-embedding"}[driver]; ok {
		return flag
	}
	return "--embeddings"
}

func TestWithoutAConfigurationWhatIsInPathIsOffered(t *testing.T) {
	programs(t, map[string]string{"vllm": "echo 0.18.2", "python3": "exit 1"})
	drivers, configs := Found()
	for _, d := range drivers {
		offer, ok := d.Offer(context.Background())
		if d.Name() == "sglang" && ok {
			t.Errorf("a Python without the engine is offered as %+v", offer)
		}
		if d.Name() == "vllm" && (!ok || !offer.Hub || offer.Version != "0.18.2") {
			t.Errorf("vllm: %+v %v", offer, ok)
		}
		if _, configured := configs[d.Name()]; !configured {
			t.Errorf("%s has no configuration, so the agent would not offer it", d.Name())
		}
	}
	if len(drivers) != 3 {
		t.Errorf("%d drivers are looked for in PATH", len(drivers))
	}
}
