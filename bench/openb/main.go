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
	traces := flag.String("traces", "default,gpuspec33,multigpu50", "traces, by the end of their files' names")
	seeds := flag.Int("seeds", 10, "orders of arrival; the first has the seed 42, as in the paper")
	workers := flag.Int("workers", max(1, runtime.NumCPU()-1), "runs at a time")
	memory := flag.Bool("memory", true, "tasks ask for host memory too")
	out := flag.String("json", "", "also write everything to this file")
	flag.Parse()
	if err := bench(*dir, strings.Split(*traces, ","), *seeds, *workers, *memory, *out); err != nil {
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
func bench(dir string, traces []string, seeds, workers int, memory bool, file string) error {
	if _, err := os.Stat(filepath.Join(dir, "openb")); err == nil {
		dir = filepath.Join(dir, "openb")
	}
	var reports []report
	var failed []error
	for _, trace := range traces {
		w, err := newWorkload(dir, trace, memory)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the data is not there (%w); say where it is with -data or BERTH_DATA", err)
		} else if err != nil {
			return err
		}
		var list []uint64
		for i := range seeds {
			list = append(list, uint64(42+i))
		}
		r, err := newReport(dir, w, w.runAll(list, workers))
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
