package sim

import (
	"compress/gzip"
	"net/http"
)

// mangle applies the gzip fault to an answer; done ends it.
func mangle(w http.ResponseWriter, how string) (out http.ResponseWriter, done func()) {
	if how == "" {
		return w, func() {}
	}
	w.Header().Set("Content-Encoding", "gzip")
	if how == "label" {
		return w, func() {}
	}
	z := &gzipped{ResponseWriter: w, z: gzip.NewWriter(w)}
	return z, z.done
}

// gzipped compresses what is written, with a flush wherever the handler flushes.
type gzipped struct {
	http.ResponseWriter
	z    *gzip.Writer
	used bool
}

func (g *gzipped) Write(b []byte) (int, error) {
	g.used = true
	return g.z.Write(b)
}

// FlushError is what http.ResponseController calls.
func (g *gzipped) FlushError() error {
	if g.used {
		if err := g.z.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(g.ResponseWriter).Flush()
}

func (g *gzipped) done() {
	if g.used {
		_ = g.z.Close()
	}
}
