package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// card is one GPU in the trace's unit, thousandths.
const card = 1000

// task is one pod of the trace: so many GPUs, of each so many thousandths; CPU in thousandths of a core, memory in MiB.
type task struct {
	cpu, memory int
	gpus, milli int
	spec        string // models of GPU that will do, joined by |; empty: any
}

// demand is in thousandths of GPUs.
func (t *task) demand() int { return t.gpus * t.milli }

// part says whether the task takes a part of a GPU.
func (t *task) part() bool { return t.gpus == 1 && t.milli < card }

// machine is one node of the trace as it was before anything ran.
type machine struct {
	name        string
	cpu, memory int
	gpus        int
	model       string
}

// table is a CSV file whose columns are found by name.
type table struct {
	file    string
	columns map[string]int
	rows    [][]string
}

func read(file string) (table, error) {
	f, err := os.Open(file)
	if err != nil {
		return table{}, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	rows, err := r.ReadAll()
	if err != nil || len(rows) < 2 {
		return table{}, fmt.Errorf("%s: no rows: %w", file, err)
	}
	t := table{file: file, columns: map[string]int{}, rows: rows[1:]}
	for i, name := range rows[0] {
		t.columns[name] = i
	}
	return t, nil
}

func (t table) text(row []string, column string) string {
	if i, ok := t.columns[column]; ok {
		return row[i]
	}
	return ""
}

func (t table) number(row []string, column string) (int, error) {
	n, err := strconv.Atoi(t.text(row, column))
	if err != nil {
		return 0, fmt.Errorf("%s: column %s: %w", t.file, column, err)
	}
	return n, nil
}

// numbers reads several columns of a row.
func (t table) numbers(row []string, into map[string]*int) error {
	for column, to := range into {
		n, err := t.number(row, column)
		if err != nil {
			return err
		}
		*to = n
	}
	return nil
}

// files says where the data is.
type files struct {
	dir   string // the folder
	nodes string // the cluster
}

// at returns the path of a file of the folder; a name with a slash is a path already.
func (f files) at(name string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		return name
	}
	return filepath.Join(f.dir, name)
}

func (f files) machines() ([]machine, error) {
	t, err := read(f.at(f.nodes))
	if err != nil {
		return nil, err
	}
	var out []machine
	for _, row := range t.rows {
		m := machine{name: t.text(row, "sn"), model: t.text(row, "model")}
		if err := t.numbers(row, map[string]*int{"cpu_milli": &m.cpu, "memory_mib": &m.memory, "gpu": &m.gpus}); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// file is the name of a trace's file.
func file(trace string) string {
	if strings.HasSuffix(trace, ".csv") {
		return trace
	}
	return "openb_pod_list_" + trace + ".csv"
}

// tasks reads the tasks of a trace. As in the paper's simulator no card gives more than all of itself, and a task without cards asks for no model of them.
func (f files) tasks(trace string) ([]task, error) {
	t, err := read(f.at(file(trace)))
	if err != nil {
		return nil, err
	}
	var out []task
	for _, row := range t.rows {
		k := task{spec: t.text(row, "gpu_spec")}
		if err := t.numbers(row, map[string]*int{"cpu_milli": &k.cpu, "memory_mib": &k.memory, "num_gpu": &k.gpus, "gpu_milli": &k.milli}); err != nil {
			return nil, err
		}
		if k.milli = min(k.milli, card); k.gpus == 0 {
			k.milli, k.spec = 0, ""
		}
		out = append(out, k)
	}
	return out, nil
}

// published is what the paper's own runs allocated, in percent, when so much demand had arrived; zero: not known.
type published struct {
	At100 float64 `json:"allocated_percent_at_100,omitempty"`
	At130 float64 `json:"allocated_percent_at_130,omitempty"`
}

func (f files) published(trace, policy string) (published, error) {
	t, err := read(f.at("published_allocated.csv"))
	if errors.Is(err, fs.ErrNotExist) {
		return published{}, nil // a trace of one's own has none
	} else if err != nil {
		return published{}, err
	}
	for _, row := range t.rows {
		if t.text(row, "trace") != strings.TrimSuffix(filepath.Base(file(trace)), ".csv") || t.text(row, "policy") != policy {
			continue
		}
		var out published
		for column, to := range map[string]*float64{"at_100": &out.At100, "at_130": &out.At130} {
			if *to, err = strconv.ParseFloat(t.text(row, column), 64); err != nil {
				return out, fmt.Errorf("%s: column %s: %w", t.file, column, err)
			}
		}
		return out, nil
	}
	return published{}, nil
}

// arrivals returns the tasks in the order in which they arrive: all of them shuffled, then drawn at random, until their demand is the given part of the
// capacity.
func arrivals(r *rand.Rand, tasks []task, until int) []task {
	out := append([]task(nil), tasks...)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	demand := 0
	for i := range out {
		if demand += out[i].demand(); demand >= until {
			return out[:i+1]
		}
	}
	for demand < until {
		t := tasks[r.IntN(len(tasks))]
		out = append(out, t)
		demand += t.demand()
	}
	return out
}
