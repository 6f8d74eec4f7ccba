//go:build cgo && linux

package nvml

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"berth/agent/gpu"
)

// Available says whether this program was built with the library's bindings.
const Available = true

// fieldRecoveryAction is NVML_FI_DEV_GET_GPU_RECOVERY_ACTION of nvml.h: the driver's own verdict on a card.
const fieldRecoveryAction = 230

// recoveryActions are its values (nvml.h, nvmlDeviceGpuRecoveryAction_t); 0 is none.
var recoveryActions = map[uint64]string{
	1: "a reset of the card", 2: "a reboot of the machine", 3: "draining its peer-to-peer traffic", 4: "draining and a reset of the card",
	5: "recovery of the IMEX domain", 6: "a reset of its bus", 7: "a reboot of the system",
}

// Open loads the library, from path or from where the linker finds it, and starts it. After a failed start no other function may be called: the
// linker would end the process. So there is no reader then.
func Open(path string) (gpu.Reader, error) {
	var opts []nvml.LibraryOption
	if path != "" {
		opts = append(opts, nvml.WithLibraryPath(path))
	}
	r, err := open(nvml.New(opts...))
	if err != nil {
		return nil, err // not r: a nil *reader in the interface would not be nil
	}
	return r, nil
}

func open(lib nvml.Interface) (*reader, error) {
	switch ret := lib.Init(); ret {
	case nvml.SUCCESS:
	case nvml.ERROR_LIBRARY_NOT_FOUND:
		return nil, fmt.Errorf("%w: libnvidia-ml.so.1 is not here", gpu.ErrNoDriver)
	default:
		return nil, fmt.Errorf("NVML does not start: %s", nvml.ErrorString(ret))
	}
	r := &reader{lib: lib, xids: map[string]uint64{}}
	r.watch()
	return r, nil
}

type reader struct {
	lib    nvml.Interface
	events nvml.EventSet     // nil: this driver gives none
	xids   map[string]uint64 // newest XID that takes a card out, by UUID
}

// has says whether the installed driver has a function; calling one that it lacks ends the process.
func (r *reader) has(symbol string) bool { return r.lib.Extensions().LookupSymbol(symbol) == nil }

// Read implements gpu.Reader.
func (r *reader) Read(context.Context) (gpu.Reading, error) {
	r.collect()
	n, ret := r.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return gpu.Reading{}, fmt.Errorf("NVML cannot count the cards: %s", nvml.ErrorString(ret))
	}
	var out gpu.Reading
	if v, ret := r.lib.SystemGetDriverVersion(); ret == nvml.SUCCESS {
		out.Driver = v
	}
	for i := range n {
		out.Cards = append(out.Cards, r.card(i))
	}
	return out, nil
}

// card reads one card. A card that does not answer is there, with the reason for which it must not be given work.
func (r *reader) card(i int) gpu.Card {
	c := gpu.Card{Index: i}
	d, ret := r.lib.DeviceGetHandleByIndex(i)
	if ret != nvml.SUCCESS {
		c.UUID, c.Name, c.Fault = fmt.Sprintf("index-%d", i), "unknown", "NVML: "+nvml.ErrorString(ret)
		return c
	}
	if c.UUID, ret = d.GetUUID(); ret != nvml.SUCCESS {
		c.UUID, c.Fault = fmt.Sprintf("index-%d", i), "NVML: "+nvml.ErrorString(ret)
		return c
	}
	c.Name, _ = d.GetName()
	if m, ret := d.GetMemoryInfo(); ret == nvml.SUCCESS {
		used := int64(m.Used)
		c.MemoryTotal, c.MemoryUsed = int64(m.Total), &used
	} else {
		c.Fault = "its memory cannot be read: " + nvml.ErrorString(ret)
	}
	r.load(d, &c)
	r.health(d, &c)
	c.Fabric = r.fabric(d)
	return c
}

func (r *reader) load(d nvml.Device, c *gpu.Card) {
	if u, ret := d.GetUtilizationRates(); ret == nvml.SUCCESS {
		c.Utilization = ptr(float64(u.Gpu) / 100)
	}
	if t, ret := d.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		c.Celsius = ptr(float64(t))
	}
	if mw, ret := d.GetPowerUsage(); ret == nvml.SUCCESS {
		c.Watts = ptr(float64(mw) / 1000)
	}
	if procs, ret := d.GetComputeRunningProcesses(); ret == nvml.SUCCESS {
		c.ProcessesKnown = true
		for _, p := range procs {
			c.Processes = append(c.Processes, int(p.Pid))
		}
	}
}

func ptr(v float64) *float64 { return &v }

// health asks the driver for its own verdict first; only where it has none, the XIDs that were seen decide, until the card is checked.
func (r *reader) health(d nvml.Device, c *gpu.Card) {
	if c.Fault != "" {
		return
	}
	values := []nvml.FieldValue{{FieldId: fieldRecoveryAction}}
	ret := nvml.ERROR_FUNCTION_NOT_FOUND
	if r.has("nvmlDeviceGetFieldValues") {
		ret = d.GetFieldValues(values)
	}
	known := ret == nvml.SUCCESS && nvml.Return(values[0].NvmlReturn) == nvml.SUCCESS
	action := binary.NativeEndian.Uint64(values[0].Value[:])
	c.Checked = known
	switch {
	case known && action != 0:
		c.Fault = "the driver asks for " + actionName(action)
	case known:
		delete(r.xids, c.UUID) // a positive check: the driver says that nothing is wrong with it any more
	case r.xids[c.UUID] != 0:
		c.XID = r.xids[c.UUID]
		c.Fault = fmt.Sprintf("XID %d", c.XID)
	}
	if c.Fault == "" && r.has("nvmlDeviceGetRemappedRows") {
		if _, _, _, failed, ret := d.GetRemappedRows(); ret == nvml.SUCCESS && failed {
			c.Fault = "a row of its memory could not be remapped"
		}
	}
}

func actionName(action uint64) string {
	if name, ok := recoveryActions[action]; ok {
		return name
	}
	return fmt.Sprintf("recovery action %d", action)
}

// fabric returns the multi-node NVLink domain, <cluster UUID>.<clique> as NVIDIA's feature discovery writes it; "" on a machine that is in none.
func (r *reader) fabric(d nvml.Device) string {
	if !r.has("nvmlDeviceGetGpuFabricInfo") {
		return ""
	}
	info, ret := d.GetGpuFabricInfo()
	const completed = 3 // nvml.h: NVML_GPU_FABRIC_STATE_COMPLETED; the status counts only then
	if ret != nvml.SUCCESS || info.State != completed || info.Status != 0 || info.ClusterUuid == [16]uint8{} {
		return ""
	}
	u := info.ClusterUuid
	id := hex.EncodeToString(u[:4]) + "-" + hex.EncodeToString(u[4:6]) + "-" + hex.EncodeToString(u[6:8]) + "-" + hex.EncodeToString(u[8:10]) + "-" + hex.EncodeToString(u[10:])
	return fmt.Sprintf("%s.%d", id, info.CliqueId)
}
