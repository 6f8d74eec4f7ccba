package agent

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"berth/internal/modelfile"
)

// FileVersion is the version of the agent's file that this release reads.
const FileVersion = 1

// File is the agent's file, as people write it.
type File struct {
	Version     int                   `json:"version"`
	Name        string                `json:"name,omitempty"`
	Join        []string              `json:"join,omitempty"` // gossip addresses, HOST or HOST:7302
	Peer        []string              `json:"peer,omitempty"` // URLs of peers, for what may not gossip
	Bind        string                `json:"bind,omitempty"`
	Advertise   string                `json:"advertise,omitempty"`
	DataDir     string                `json:"data_dir,omitempty"`
	Labels      map[string]string     `json:"labels,omitempty"`
	GPUs        string                `json:"gpus,omitempty"` // nvml, nvidia-smi, file:PATH, none
	EngineBind  string                `json:"engine_bind,omitempty"`
	EnginePorts PortRange             `json:"engine_ports,omitzero"`
	ModelRoots  []string              `json:"model_roots,omitempty"`
	Engines     map[string]FileEngine `json:"engines,omitempty"` // by driver

	GossipBind        string `json:"gossip_bind,omitempty"`
	InsecureNoTLS     bool   `json:"insecure_no_tls,omitempty"`
	StopEnginesOnExit bool   `json:"stop_engines_on_exit,omitempty"`
	LogLevel          string `json:"log_level,omitempty"`
	LogFormat         string `json:"log_format,omitempty"`
}

// FileEngine is one entry of the file's engines.
type FileEngine struct {
	Command   []string `json:"command,omitempty"`
	AllowArgs []string `json:"allow_args,omitempty"`
	Hub       bool     `json:"hub,omitempty"`
	Version   string   `json:"version,omitempty"`
}

// fileHints say what to write instead of fields that people expect.
var fileHints = map[string]string{
	"model_root": "model_roots, a list",
	"ports":      "engine_ports, like 20000-20999",
	"args":       "allow_args lists the flags that a model may pass; a program's own arguments belong into command",
}

// ReadFile reads an agent's file. It is strict: every problem is listed with its line.
func ReadFile(path string) (File, error) {
	r, err := os.Open(path)
	if err != nil {
		return File{}, err // names the path already
	}
	defer r.Close()
	docs, err := modelfile.Documents(path, r)
	if err != nil {
		return File{}, err
	}
	if len(docs) != 1 {
		return File{}, fmt.Errorf("%s: an agent's file is one document; this one has %d", path, len(docs))
	}
	f := File{Version: FileVersion}
	if err := docs[0].Decode(&f, fileHints); err != nil {
		return File{}, err
	}
	if f.Version != FileVersion {
		return File{}, fmt.Errorf("%s: version is %d; this release reads version: %d", path, f.Version, FileVersion)
	}
	return f, nil
}

// Fill sets in the configuration what the file says and the configuration leaves open: flags and variables go before the file.
func (f File) Fill(c *Config) {
	text := func(p *string, v string) {
		if *p == "" {
			*p = v
		}
	}
	text(&c.Name, f.Name)
	text(&c.Bind, f.Bind)
	text(&c.Advertise, f.Advertise)
	text(&c.DataDir, f.DataDir)
	text(&c.EngineBind, f.EngineBind)
	if c.EnginePorts == (PortRange{}) {
		c.EnginePorts = f.EnginePorts
	}
	if len(c.ModelRoots) == 0 {
		c.ModelRoots = slices.Clone(f.ModelRoots)
	}
	if len(c.Labels) == 0 {
		c.Labels = maps.Clone(f.Labels)
	}
	if len(c.Engines) == 0 {
		c.Engines = f.EngineConfigs()
	}
}

// EngineConfigs gives the file's engines as drivers and the agent take them.
func (f File) EngineConfigs() map[string]EngineConfig {
	out := make(map[string]EngineConfig, len(f.Engines))
	for name, e := range f.Engines {
		out[name] = EngineConfig(e)
	}
	return out
}
