//go:build cgo && linux

package nvml

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"

	"berth/agent/gpu"
)

// box is NVIDIA's own mock of a machine with eight H100s; what the mock leaves out is filled in.
func box(t *testing.T) (*server.Server, []*server.Device) {
	t.Helper()
	s := dgxh100.New()
	events := &mock.EventSet{WaitFunc: func(uint32) (nvml.EventData, nvml.Return) { return nvml.EventData{}, nvml.ERROR_TIMEOUT }}
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) { return events, nvml.SUCCESS }
	var devices []*server.Device
	for _, d := range s.Devices {
		d := d.(*server.Device)
		d.GetUtilizationRatesFunc = func() (nvml.Utilization, nvml.Return) { return nvml.Utilization{Gpu: 40}, nvml.SUCCESS }
		d.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, nvml.SUCCESS }
		d.GetPowerUsageFunc = func() (uint32, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
		d.GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) { return []nvml.ProcessInfo{{Pid: 77}}, nvml.SUCCESS }
		d.GetFieldValuesFunc = func(v []nvml.FieldValue) nvml.Return { return nvml.SUCCESS }
		d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.SUCCESS }
		d.GetGpuFabricInfoFunc = func() (nvml.GpuFabricInfo, nvml.Return) {
			return nvml.GpuFabricInfo{State: 3, ClusterUuid: [16]uint8{1, 2, 3}, CliqueId: 7}, nvml.SUCCESS
		}
		d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
		devices = append(devices, d)
	}
	return s, devices
}

func read(t *testing.T, lib nvml.Interface) gpu.Reading {
	t.Helper()
	r, err := open(lib)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Read(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestReadsWhatThereIsAndLeavesOutWhatCannotBeMeasured(t *testing.T) {
	s, _ := box(t)
	got := read(t, s)
	if len(got.Cards) != 8 || got.Driver == "" {
		t.Fatalf("got %+v", got)
	}
	c := got.Cards[3]
	if c.Index != 3 || c.UUID == "" || c.MemoryTotal == 0 || c.Fault != "" || *c.Utilization != 0.4 || *c.Celsius != 61 {
		t.Errorf("card 3: %+v", c)
	}
	if c.Watts != nil {
		t.Errorf("power cannot be measured here, yet it is %v", *c.Watts)
	}
	if !c.ProcessesKnown || len(c.Processes) != 1 || c.Processes[0] != 77 {
		t.Errorf("processes: %+v", c)
	}
	if c.Fabric != "01020300-0000-0000-0000-000000000000.7" {
		t.Errorf("fabric %q", c.Fabric)
	}
}

func TestTheDriversVerdictComesFirst(t *testing.T) {
	s, d := box(t)
	d[2].GetFieldValuesFunc = func(v []nvml.FieldValue) nvml.Return {
		binary.NativeEndian.PutUint64(v[0].Value[:], 1)
		return nvml.SUCCESS
	}
	d[5].GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 1, false, true, nvml.SUCCESS }
	s.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 6 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return s.Devices[i], nvml.SUCCESS
	}
	got := read(t, s)
	for i, want := range map[int]string{2: "a reset of the card", 5: "could not be remapped", 6: "NVML: "} {
		if !strings.Contains(got.Cards[i].Fault, want) {
			t.Errorf("card %d: %q, want %q", i, got.Cards[i].Fault, want)
		}
	}
	if got.Cards[0].Fault != "" {
		t.Errorf("card 0: %q", got.Cards[0].Fault)
	}
}

func TestAnXIDTakesACardOutUntilTheDriverSaysOtherwise(t *testing.T) {
	s, d := box(t)
	pending := []nvml.EventData{
		{Device: d[1], EventType: nvml.EventTypeXidCriticalError, EventData: 79},
		{Device: d[4], EventType: nvml.EventTypeXidCriticalError, EventData: 13}, // an application's fault
		{Device: d[5], EventType: nvml.EventTypeXidCriticalError, EventData: 999},
	}
	s.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{WaitFunc: func(uint32) (nvml.EventData, nvml.Return) {
			if len(pending) == 0 {
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			}
			e := pending[0]
			pending = pending[1:]
			return e, nvml.SUCCESS
		}}, nvml.SUCCESS
	}
	unsupported := func(v []nvml.FieldValue) nvml.Return {
		v[0].NvmlReturn = uint32(nvml.ERROR_NOT_SUPPORTED)
		return nvml.SUCCESS
	}
	for _, dev := range d {
		dev.GetFieldValuesFunc = unsupported
	}
	r, err := open(s)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the verdict stands, though the event came once
		got, err := r.Read(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if got.Cards[1].Fault != "XID 79" || got.Cards[4].Fault != "" || got.Cards[5].Fault != "XID 999" {
			t.Errorf("faults %q %q %q", got.Cards[1].Fault, got.Cards[4].Fault, got.Cards[5].Fault)
		}
	}
	d[1].GetFieldValuesFunc = func([]nvml.FieldValue) nvml.Return { return nvml.SUCCESS }
	if got, _ := r.Read(context.Background()); got.Cards[1].Fault != "" {
		t.Errorf("after the driver's positive check: %q", got.Cards[1].Fault)
	}
}

func TestFunctionsThatTheDriverLacksAreNotCalled(t *testing.T) {
	s, d := box(t)
	s.LookupSymbolFunc = func(string) error { return errors.New("undefined symbol") }
	s.EventSetCreateFunc = nil // the mock panics when it is called
	for _, dev := range d {
		dev.GetRemappedRowsFunc, dev.GetGpuFabricInfoFunc = nil, nil
	}
	if got := read(t, s); len(got.Cards) != 8 || got.Cards[0].Fabric != "" {
		t.Errorf("got %+v", got)
	}
}

func TestWithoutTheLibraryNothingElseIsCalled(t *testing.T) {
	s := &mock.Interface{InitFunc: func() nvml.Return { return nvml.ERROR_LIBRARY_NOT_FOUND }}
	if _, err := open(s); !errors.Is(err, gpu.ErrNoDriver) || !strings.Contains(err.Error(), "libnvidia-ml.so.1") {
		t.Errorf("got %v", err)
	}
	s.InitFunc = func() nvml.Return { return nvml.ERROR_DRIVER_NOT_LOADED }
	if _, err := open(s); err == nil || errors.Is(err, gpu.ErrNoDriver) {
		t.Errorf("got %v", err)
	}
}
