package gpu

import (
	"context"
	"fmt"
	"os"
	"runtime"

	"berth/fleet"
	"berth/fleet/wire"
	"berth/internal/modelfile"
)

// fileSpec is the form of gpus.yaml.
type fileSpec struct {
	Version int         `json:"version"`
	Fabric  string      `json:"fabric"`
	GPUs    []fileGroup `json:"gpus"`
	CPUs    int         `json:"cpus"`
	Memory  fleet.Bytes `json:"memory"`
}

type fileGroup struct {
	Class  string      `json:"class"`
	Memory fleet.Bytes `json:"memory"`
	Count  int         `json:"count"`
	// Unhealthy lists cards of the group, counted from 0, that are to be taken for broken: operators of other vendors' cards keep it up to date.
	Unhealthy []int `json:"unhealthy"`
}

// File is an inventory that a person has written down. It is read anew at each measurement, so that an edit takes effect without a restart.
type File struct {
	path string
	node string // makes the cards' ids unique in the cluster
}

// NewFile returns the inventory in a gpus.yaml; it fails if the file is wrong now.
func NewFile(path, node string) (*File, error) {
	f := &File{path: path, node: node}
	_, err := f.Measure(context.Background())
	return f, err
}

// Fixed is an inventory of equal cards, for simulation.
func Fixed(node, fabric, class string, memory fleet.Bytes, count int) fleet.Inventory {
	s := fileSpec{Fabric: fabric, GPUs: []fileGroup{{Class: class, Memory: memory, Count: count}}}
	return s.inventory(node)
}

// Measure implements agent.Inventory.
func (f *File) Measure(context.Context) (fleet.Inventory, error) {
	r, err := os.Open(f.path)
	if err != nil {
		return fleet.Inventory{}, fmt.Errorf("the GPU file: %w", err)
	}
	defer r.Close()
	docs, err := modelfile.Documents(f.path, r)
	if err != nil {
		return fleet.Inventory{}, err
	}
	if len(docs) != 1 {
		return fleet.Inventory{}, fmt.Errorf("%s holds %d documents; a GPU file is one", f.path, len(docs))
	}
	var s fileSpec
	if err := docs[0].Decode(&s, map[string]string{"name": "write class", "gpu": "write gpus"}); err != nil {
		return fleet.Inventory{}, err
	}
	if err := s.check(f.path); err != nil {
		return fleet.Inventory{}, err
	}
	return s.inventory(f.node), nil
}

func (s fileSpec) check(path string) error {
	if s.Version != 1 {
		return fmt.Errorf("%s: version is %d; this release reads version: 1", path, s.Version)
	}
	for i, g := range s.GPUs {
		if g.Class == "" || g.Memory <= 0 || g.Count < 1 || g.Count > 64 {
			return fmt.Errorf("%s: gpus[%d] needs class, memory and a count of 1 to 64, like {class: h100-sxm-80gb, memory: 80GiB, count: 8}", path, i)
		}
		for _, n := range g.Unhealthy {
			if n < 0 || n >= g.Count {
				return fmt.Errorf("%s: gpus[%d].unhealthy names card %d of %d; they count from 0", path, i, n, g.Count)
			}
		}
	}
	return nil
}

func (s fileSpec) inventory(node string) fleet.Inventory {
	inv := fleet.Inventory{Source: "file", Fabric: s.Fabric, CPUs: s.CPUs, Memory: s.Memory}
	if inv.CPUs == 0 {
		inv.CPUs = runtime.NumCPU()
	}
	if inv.Memory == 0 {
		inv.Memory = hostMemory()
	}
	for _, group := range s.GPUs {
		for n := range group.Count {
			i := len(inv.GPUs)
			g := fleet.GPU{UUID: fmt.Sprintf("FILE-%s-%d", node, i), Index: i, Class: group.Class, Memory: group.Memory, Health: fleet.Healthy}
			for _, bad := range group.Unhealthy {
				if bad == n {
					g.Health, g.Reason = fleet.Unhealthy, "the GPU file says so"
				}
			}
			inv.GPUs = append(inv.GPUs, g)
		}
	}
	return inv
}

// Free implements agent.Inventory: a written-down card has no process list. That the engine's processes are gone is all there is to know, and the
// shim has seen to that.
func (f *File) Free(context.Context, []fleet.Claim) (bool, error) { return true, nil }

// Load implements agent.Inventory.
func (f *File) Load(context.Context) []wire.GPULoad { return nil }
