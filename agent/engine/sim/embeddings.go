package sim

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"net/http"
	"slices"
)

type embedding struct {
	Object    string `json:"object"`
	Index     int    `json:"index"`
	Embedding any    `json:"embedding"` // []float32, or base64 of them, little endian
}

func embed(c *call) error {
	var req embeddingRequest
	if err := c.read(&req); err != nil {
		return err
	}
	if err := c.model(req.Model); err != nil {
		return err
	}
	dim, err := c.dimensions(req)
	if err != nil {
		return err
	}
	w, err := c.plan(sampling{}, slices.Concat(req.Input...)) // its time is that of all inputs together
	if err != nil {
		return err
	}
	return c.embed(w, req, dim)
}

func (c *call) embed(w *work, req embeddingRequest, dim int) error {
	if err := c.strike(0); err != nil {
		return err
	}
	leave, err := c.enqueue(w)
	if err != nil {
		return err
	}
	defer leave()
	end, err := c.begin(w)
	if err != nil {
		return err
	}
	end("stop")
	writeJSON(c.w, http.StatusOK, map[string]any{
		"id": "embd-sim", "object": "list", "model": c.cfg.ServedNames[0],
		"data": embeddings(req, dim), "usage": w.usage(),
	})
	return nil
}

func (c *call) dimensions(req embeddingRequest) (int, error) {
	switch {
	case len(req.Input) == 0:
		return 0, badRequest("input must not be empty")
	case req.EncodingFormat != "" && req.EncodingFormat != "float" && req.EncodingFormat != "base64":
		return 0, badRequest("encoding_format is %q, not float or base64", req.EncodingFormat)
	case req.Dimensions < 0 || req.Dimensions > c.cfg.EmbeddingDim:
		return 0, badRequest("dimensions is %d, not in 1 to %d", req.Dimensions, c.cfg.EmbeddingDim)
	case req.Dimensions > 0:
		return req.Dimensions, nil
	}
	return c.cfg.EmbeddingDim, nil
}

func embeddings(req embeddingRequest, dim int) []embedding {
	out := make([]embedding, len(req.Input))
	for i, in := range req.Input {
		v := unitVector(in, dim)
		out[i] = embedding{Object: "embedding", Index: i, Embedding: v}
		if req.EncodingFormat == "base64" {
			var raw []byte
			for _, x := range v {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
			}
			out[i].Embedding = base64.StdEncoding.EncodeToString(raw)
		}
	}
	return out
}

// unitVector is a function of the tokens alone, of Euclidean length 1.
func unitVector(tokens []int64, dim int) []float32 {
	b := newBabble(tokens)
	v := make([]float64, dim)
	var sum float64
	for i := range v {
		v[i] = float64(b.random()>>11)/(1<<52) - 1 // uniform in [-1, 1)
		sum += v[i] * v[i]
	}
	out := make([]float32, dim)
	for i := range v {
		out[i] = float32(v[i] / math.Sqrt(sum))
	}
	return out
}
