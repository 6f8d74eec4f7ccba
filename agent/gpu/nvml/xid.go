//go:build cgo && linux

package nvml

import "github.com/NVIDIA/go-nvml/pkg/nvml"

// taken lists the XIDs after which a card must not be given work until it is reset, the machine rebooted or the card looked at (NVIDIA's XID
// catalogue). Others are the fault of an application, or informational.
var taken = map[uint64]bool{
	46: true, 48: true, 62: true, 64: true, 74: true, 79: true, 95: true, 109: true, 110: true, 119: true, 120: true, 136: true, 140: true,
	143: true, 144: true, 145: true, 146: true, 147: true, 148: true, 149: true, 150: true, 151: true, 155: true, 156: true, 158: true,
}

// harmless lists the XIDs that an application causes or that only inform.
var harmless = map[uint64]bool{
	8: true, 11: true, 13: true, 25: true, 31: true, 32: true, 37: true, 38: true, 39: true, 40: true, 41: true, 43: true, 44: true, 45: true,
	63: true, 68: true, 69: true, 92: true, 94: true, 121: true, 137: true, 154: true, 157: true, 160: true, 161: true,
}

// watch asks for the events of every card. A driver that gives none leaves the verdict to the recovery action.
func (r *reader) watch() {
	if !r.has("nvmlEventSetCreate") || !r.has("nvmlEventSetWait_v2") {
		return
	}
	set, ret := r.lib.EventSetCreate()
	if ret != nvml.SUCCESS {
		return
	}
	r.events = set
	n, _ := r.lib.DeviceGetCount()
	for i := range n {
		if d, ret := r.lib.DeviceGetHandleByIndex(i); ret == nvml.SUCCESS {
			_ = d.RegisterEvents(nvml.EventTypeXidCriticalError, set) // a card that gives no events is judged without them
		}
	}
}

// collect takes the events that have come since the last reading. A code that is in neither list takes the card out: what it means is not known.
func (r *reader) collect() {
	for r.events != nil {
		e, ret := r.events.Wait(0)
		if ret != nvml.SUCCESS {
			return // ERROR_TIMEOUT: there are no more
		}
		if e.EventType != nvml.EventTypeXidCriticalError || harmless[e.EventData] && !taken[e.EventData] {
			continue
		}
		if uuid, ret := e.Device.GetUUID(); ret == nvml.SUCCESS {
			r.xids[uuid] = e.EventData
		}
	}
}
