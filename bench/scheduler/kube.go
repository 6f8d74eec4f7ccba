package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// kube is what the module in kube/ measured, once with each way of scoring.
type kube struct {
	Spread kubeRun `json:"default"`       // as it comes: the least allocated node
	Pack   kubeRun `json:"mostAllocated"` // set to pack, which is what is compared with
}

type kubeRun struct {
	Nodes      int     `json:"nodes"`
	Placements int     `json:"placements"`
	Seconds    float64 `json:"seconds"`
	PerSecond  float64 `json:"per_second"`
	NodesUsed  int     `json:"nodes_used"`
}

// kubeLine is Berth's decisions a second for each of kube-scheduler's, on a fleet of the same size.
type kubeLine struct {
	Nodes  int     `json:"nodes"`
	Spread float64 `json:"to_default"`
	Pack   float64 `json:"to_mostAllocated"`
}

// runKube builds the module, which takes minutes the first time, and runs it.
func runKube(dir string, nodes, pods int) (*kube, error) {
	tmp, err := os.MkdirTemp("", "bench-kube")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	program := filepath.Join(tmp, "kube")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = dir
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build in %s: %w: %s", dir, err, lastLine(text))
	}
	var k kube
	for _, way := range []struct {
		pack bool
		into *kubeRun
	}{{false, &k.Spread}, {true, &k.Pack}} {
		text, err := exec.Command(program, fmt.Sprint("-nodes=", nodes), fmt.Sprint("-pods=", pods), fmt.Sprint("-pack=", way.pack)).Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", program, err)
		}
		if err := json.Unmarshal(text, way.into); err != nil {
			return nil, fmt.Errorf("%s says %q: %w", program, text, err)
		}
	}
	return &k, nil
}

func lastLine(text []byte) string {
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return lines[len(lines)-1]
}

func compare(sizes []size, k *kube) []kubeLine {
	var out []kubeLine
	for _, s := range sizes {
		if s.Nodes == k.Pack.Nodes {
			out = append(out, kubeLine{s.Nodes, s.Singles.PerSecond / k.Spread.PerSecond, s.Singles.PerSecond / k.Pack.PerSecond})
		}
	}
	return out
}

func printKube(to io.Writer, k *kube, ratios []kubeLine) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\nkube-scheduler, %d nodes, single pods\t/s\tnodes used\tBerth's /s to it\t\n", k.Pack.Nodes)
	for _, line := range []struct {
		name string
		run  kubeRun
		of   func(kubeLine) float64
	}{
		{"as it comes", k.Spread, func(l kubeLine) float64 { return l.Spread }},
		{"MostAllocated", k.Pack, func(l kubeLine) float64 { return l.Pack }},
	} {
		ratio := "-"
		if len(ratios) > 0 {
			ratio = fmt.Sprintf("%.0f x", line.of(ratios[0]))
		}
		fmt.Fprintf(w, "%s\t%.0f\t%d\t%s\t\n", line.name, line.run.PerSecond, line.run.NodesUsed, ratio)
	}
	w.Flush()
}
