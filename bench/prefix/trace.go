package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"berth/router"
	"berth/router/pool"
	"berth/router/prefix"
)

const (
	blockTokens   = 512
	bytesPerToken = 4
)

// request is one of the trace.
type request struct {
	at     time.Duration // since the first
	input  int           // tokens
	output int           // tokens
	blocks []uint64      // as the trace names them
	prompt pool.Prompt   // as the router reads it
}

// tokens is how many of the prompt's tokens lie in its first n blocks.
func (r *request) tokens(n int) int { return min(n*blockTokens, r.input) }

// readTrace reads a trace, in order of time as it is.
func readTrace(path string) ([]request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []request
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		var row struct {
			Timestamp float64  `json:"timestamp"`
			Input     int      `json:"input_length"`
			Output    int      `json:"output_length"`
			Blocks    []uint64 `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		r := request{at: time.Duration(row.Timestamp * float64(time.Millisecond)), input: row.Input, output: row.Output, blocks: row.Blocks}
		if r.input <= 0 || len(r.blocks) != (r.input+blockTokens-1)/blockTokens {
			return nil, fmt.Errorf("%s:%d: %d tokens in %d blocks of %d", path, n, r.input, len(r.blocks), blockTokens)
		}
		if len(out) > 0 && r.at < out[len(out)-1].at {
			return nil, fmt.Errorf("%s:%d: the time runs backwards", path, n)
		}
		out = append(out, r)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s: the trace is empty", path)
	}
	for i := range out {
		if err := out[i].write(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// write writes the request as a client would and reads it as the router does.
func (r *request) write() error {
	body := append(make([]byte, 0, r.input*bytesPerToken+256), `{"model":"m","messages":[{"role":"user","content":"`...)
	begin := len(body)
	for _, id := range r.blocks {
		body = appendText(body, id)
	}
	body = append(body[:begin+r.input*bytesPerToken], `"}],"stream":true}`...)
	_, p, err := router.ReadPrompt(body)
	r.prompt = p
	return err
}

// appendText writes a block's text: letters that follow from its name.
func appendText(to []byte, id uint64) []byte {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."
	h := prefix.Mix(id, 17)
	for range blockTokens * bytesPerToken / 8 {
		h = prefix.Mix(h, id+1)
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], h)
		for _, b := range word {
			to = append(to, letters[b&63])
		}
	}
	return to
}
