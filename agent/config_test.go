package agent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/agent"
)

func TestValidateListsEverything(t *testing.T) {
	err := agent.Config{
		Name: "no name", Bind: "0.0.0.0:7310", EngineBind: "::", EnginePorts: agent.PortRange{First: 9, Last: 8}, ModelRoots: []string{"models"}, Interval: -1,
		Engines: map[string]agent.EngineConfig{"vllmm": {AllowArgs: []string{"max-model-len"}}},
	}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"no name", "data directory", "measures", "shims", "peer to ask", "interval", "0.0.0.0:7310", "--advertise", `engine_bind is "::"`, "9-8", `"models"`, "vllmm", `"max-model-len"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestPorts(t *testing.T) {
	for text, want := range map[string]agent.PortRange{"20000-20999": {First: 20000, Last: 20999}, " 7 - 9 ": {First: 7, Last: 9}, "80": {First: 80, Last: 80}} {
		if got, err := agent.ParsePorts(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{"": "write it like", "a-b": "write it like", "1-2-3": "write it like", "9-8": "ends before", "0-5": "leave 1 to 65535", "1-65536": "leave"} {
		if _, err := agent.ParsePorts(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestFile(t *testing.T) {
	f, err := agent.ReadFile("../examples/agent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c := agent.Config{EngineBind: "192.0.2.99"}
	f.Fill(&c)
	vllm := c.Engines["vllm"]
	if c.Name != "gpu-017" || c.EngineBind != "192.0.2.99" || c.EnginePorts.Last != 20999 || c.Labels["rack"] != "r4" || c.ModelRoots[0] != "/srv/models" ||
		f.GPUs != "nvml" || len(f.Join) != 2 || len(vllm.Command) != 2 || !vllm.Hub || vllm.AllowArgs[0] != "--max-model-len" {
		t.Errorf("%+v %+v", f, c)
	}
}

func TestFileIsStrict(t *testing.T) {
	for text, want := range map[string][]string{
		"version: 1\nengine_port: 1-2\nlables: {a: b}": {":2:", "engine_ports", ":3:", "labels"},
		"version: 1\nengine_ports: 9-8":                {":2:", "ends before"},
		"version: 2\nname: x":                          {"version is 2"},
		"name: x\n---\nname: y":                        {"one document"},
		"engines: {vllm: {args: [-x]}}":                {":1:", "allow_args"},
	} {
		path := filepath.Join(t.TempDir(), "agent.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := agent.ReadFile(path)
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%q: %v, want %q", text, err, w)
			}
		}
	}
}
