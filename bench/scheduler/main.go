// Command scheduler measures how fast Berth's planner decides, how its cost grows with the fleet, and, where it can be built, kube-scheduler in the same run.
//
// The fleet is made here: nodes of 8 GPUs in fabrics of 16 nodes. First one-GPU replicas are placed, then gangs of two whole nodes. Nothing is written to a
// log and nothing starts: it is the decision alone, as it is for kube-scheduler with its bindings swallowed.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// result is everything that one run says.
type result struct {
	Sizes    []size     `json:"sizes"`
	Kube     *kube      `json:"kube,omitempty"`
	KubeNote string     `json:"kube_note,omitempty"`
	Ratios   []kubeLine `json:"to_kube,omitempty"`
}

func main() {
	nodes := flag.String("nodes", "1000,5000,10000,50000", "sizes of the fleet")
	singles := flag.Int("singles", 5000, "one-GPU replicas")
	gangs := flag.Int("gangs", 1000, "two-node replicas; fewer where the fleet has no room for so many")
	kubeDir := flag.String("kube", "", "folder of the kube-scheduler module; it is built and run beside")
	kubeNodes := flag.Int("kube-nodes", 5000, "size of kube-scheduler's fleet")
	out := flag.String("json", "", "also write everything to this file")
	flag.Parse()
	if err := bench(strings.Split(*nodes, ","), *singles, *gangs, *kubeDir, *kubeNodes, *out); err != nil {
		fmt.Fprintln(os.Stderr, "scheduler:", err)
		os.Exit(1)
	}
}

func bench(nodes []string, singles, gangs int, kubeDir string, kubeNodes int, file string) error {
	var r result
	for _, text := range nodes {
		n, err := strconv.Atoi(text)
		if err != nil || n < 16 {
			return fmt.Errorf("-nodes %q: want numbers of at least 16", text)
		}
		r.Sizes = append(r.Sizes, measure(n, singles, gangs))
	}
	printSizes(os.Stdout, r.Sizes)
	if kubeDir != "" {
		k, err := runKube(kubeDir, kubeNodes, singles)
		if err != nil {
			r.KubeNote = err.Error()
			fmt.Println("kube-scheduler could not be had:", err)
		} else {
			r.Kube, r.Ratios = k, compare(r.Sizes, k)
			printKube(os.Stdout, k, r.Ratios)
		}
	}
	if file == "" {
		return nil
	}
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}
