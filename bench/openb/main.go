package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

func main() {
	dir := flag.String("data", dataDir(), "folder with the openb files, or the folder that has it as openb/")
	traces := flag.String("traces", "default,gpuspec33,multigpu50", "traces: X is openb_pod_list_X.csv of the folder, and what ends in .csv is a file")
	nodes := flag.String("nodes", "openb_node_list_gpu_node.csv", "the cluster: a file of the folder, or of anywhere when it has a slash")
	seeds := flag.Int("seeds", 10, "orders of arrival; the first has the seed 42, as in the paper")
	workers := flag.Int("workers", max(1, runtime.NumCPU()-1), "runs at a time")
	out := flag.String("json", "", "also write everything to this file")
	flag.Parse()
	if err := bench(files{*dir, *nodes}, strings.Split(*traces, ","), *seeds, *workers, *out); err != nil {
		fmt.Fprintln(os.Stderr, "openb:", err)
		os.Exit(1)
	}
}

func dataDir() string {
	if dir := os.Getenv("BERTH_DATA"); dir != "" {
		return dir
	}
	return "../shared/data"
}

// bench prints a table a trace; the error says that a baseline is not what was published, or that the data cannot be read.
func bench(from files, traces []string, seeds, workers int, file string) error {
	if _, err := os.Stat(filepath.Join(from.dir, "openb")); err == nil {
		from.dir = filepath.Join(from.dir, "openb")
	}
	var reports []report
	var failed []error
	for _, trace := range traces {
		w, err := newWorkload(from, trace)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the data is not there (%w); say where it is with -data or BERTH_DATA", err)
		} else if err != nil {
			return err
		}
		var list []uint64
		for i := range seeds {
			list = append(list, uint64(42+i))
		}
		r, err := newReport(from, w, w.runAll(list, workers))
		if err != nil {
			return err
		}
		r.print(os.Stdout)
		reports = append(reports, r)
		failed = append(failed, r.honest())
	}
	if file != "" {
		data, err := json.MarshalIndent(reports, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}
