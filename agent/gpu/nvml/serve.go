package nvml

import (
	"context"
	"io"

	"berth/agent/gpu"
)

// Serve is all that the probe's child process does: it opens the library at path ("": where the linker finds it) and answers each line of in.
func Serve(ctx context.Context, path string, in io.Reader, out io.Writer) error {
	r, err := Open(path)
	if err != nil {
		r = gpu.Broken{Err: err}
	}
	return gpu.Serve(ctx, in, out, r)
}
