package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestResolveWeights(t *testing.T) {
	dir := t.TempDir()
	root, outside := filepath.Join(dir, "models"), filepath.Join(dir, "secret")
	for _, d := range []string{filepath.Join(root, "llama"), outside, filepath.Join(dir, "models-old")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"root-link": root, "models/escape": outside, "models/inner": filepath.Join(root, "llama")} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	hub := EngineConfig{Hub: true}
	for name, c := range map[string]struct {
		driver, weights, root string
		engine                EngineConfig
		want, bad             string
	}{
		"path":             {weights: root + "/llama", want: root + "/llama"},
		"root itself":      {weights: root, want: root},
		"link inside":      {weights: root + "/inner", want: root + "/llama"},
		"root is a link":   {weights: dir + "/root-link/llama", root: dir + "/root-link", want: root + "/llama"},
		"escape":           {weights: root + "/escape", bad: "under none of this node's model roots"},
		"dots":             {weights: root + "/../secret", bad: "under none"},
		"common beginning": {weights: dir + "/models-old", bad: "under none"},
		"missing":          {weights: root + "/none", bad: "are not on this node"},
		"hub":              {weights: "org/name", engine: hub, want: "org/name"},
		"hub not allowed":  {weights: "org/name", bad: "hub: true"},
		"relative path":    {weights: "./llama", engine: hub, bad: "neither a hub name"},
		"climbing":         {weights: "../secret", engine: hub, bad: "neither a hub name"},
		"nothing":          {weights: "", want: ""},
		"simulated":        {driver: "sim", weights: "org/name", want: "org/name"},
	} {
		driver, in := c.driver, c.root
		if driver == "" {
			driver = "vllm"
		}
		if in == "" {
			in = root
		}
		got, err := resolveWeights(driver, c.weights, c.engine, []string{in})
		if c.bad == "" && (err != nil || got != c.want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
		if c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)) {
			t.Errorf("%s: %q, %v; want an error with %q", name, got, err, c.bad)
		}
	}
}

func TestCheckArgs(t *testing.T) {
	allowed := []string{"--max-model-len", "-c"}
	for args, bad := range map[string]string{
		"--max-model-len=5":                     "",
		"--max-model-len 5 -c 7":                "",
		"--max-model-lenx=5":                    "--max-model-lenx",
		"-c 1 --lora x --trust-remote-code -np": "--lora, --trust-remote-code, -np",
	} {
		err := checkArgs("vllm", strings.Fields(args), allowed)
		if (err == nil) != (bad == "") || err != nil && !strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v, want %q", args, err, bad)
		}
	}
	if err := checkArgs("vllm", []string{"--anything"}, []string{"*"}); err != nil {
		t.Error(err)
	}
}
