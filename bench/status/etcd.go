package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"berth/fsm"
)

// etcd is what the etcd module's program prints.
type etcd struct {
	Version string  `json:"version"`
	Rows    int     `json:"rows"`
	Bytes   int     `json:"bytes"`
	Updates float64 `json:"updates_per_second"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	RangeMS float64 `json:"range_p50_ms"` // the range alone, of the p50
}

// runEtcd builds the program beside and gives it the same rows, one JSON line each.
func runEtcd(dir string, s *fsm.State, o options) (*etcd, error) {
	tmp, err := os.MkdirTemp("", "berth-bench-status-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	rows, program := filepath.Join(tmp, "rows.jsonl"), filepath.Join(tmp, "etcd")
	if err := writeRows(rows, s); err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build: %w: %s", err, bytes.TrimSpace(out))
	}
	cmd := exec.Command(program, "-rows", rows, "-data", filepath.Join(tmp, "data"), "-updates", strconv.Itoa(o.updates), "-duration", o.duration.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	e := new(etcd)
	return e, json.Unmarshal(out, e)
}

type row struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

func writeRows(path string, s *fsm.State) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for n := range s.Nodes() {
		if err := enc.Encode(row{"/nodes/" + n.Name, n}); err != nil {
			return err
		}
	}
	for r := range s.Replicas() {
		if err := enc.Encode(row{"/replicas/" + r.ID, r}); err != nil {
			return err
		}
	}
	return w.Flush()
}
