//go:build !cgo || !linux

package nvml

import (
	"errors"

	"berth/agent/gpu"
)

// Available says whether this program was built with the library's bindings.
const Available = false

// Open fails: there are no bindings.
func Open(string) (gpu.Reader, error) {
	return nil, errors.New("this program was built without cgo, so it cannot call NVML; use --gpus nvidia-smi")
}
