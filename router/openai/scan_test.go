package openai

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// scan writes body in pieces of the given size, 0 meaning whole.
func scan(body string, piece int) (*Scanner, error) {
	s := new(Scanner)
	if piece == 0 {
		piece = max(len(body), 1)
	}
	for len(body) > 0 {
		n := min(piece, len(body))
		s.Write([]byte(body[:n]))
		body = body[n:]
	}
	return s, s.Close()
}

func TestScannerFindsModelAndStream(t *testing.T) {
	for _, c := range []struct {
		body, model string
		stream      bool
	}{
		{`{"model":"m","stream":true}`, "m", true},
		{` {"stream" : false , "model" : "acme/Qwen-X:Q4_K_M" } ` + "\r\n", "acme/Qwen-X:Q4_K_M", false},
		{`{"messages":[{"role":"user","content":"say \"model\":\"x\" \\"}],"model":"m"}`, "m", false},
		{`{"a":{"model":"no"},"b":[{"stream":true}],"model":"yes"}`, "yes", false},
		{`{"mod\u0065l":"m\u00e9","stream":null}`, "mé", false},
		{`{"n":1,"t":-0.5e3,"model":"m","x":null,"y":true,"":"","z":[]}`, "m", false},
		{`{"` + strings.Repeat("k", 5000) + `":1,"model":"m"}`, "m", false},
	} {
		for _, piece := range []int{0, 1, 2, 3, 7} {
			s, err := scan(c.body, piece)
			if err != nil {
				t.Errorf("%.60s in pieces of %d: %v", c.body, piece, err)
				continue
			}
			model, err1 := s.Model()
			stream, err2 := s.Stream()
			if model != c.model || stream != c.stream || err1 != nil || err2 != nil {
				t.Errorf("%.60s: %q %v %v %v", c.body, model, stream, err1, err2)
			}
		}
	}
}

func TestScannerSaysWhatIsWrong(t *testing.T) {
	deep := strings.Repeat("[", MaxDepth+1)
	for body, want := range map[string]string{
		``:                                       "empty",
		`   `:                                    "empty",
		`hello`:                                  `begins with 'h'`,
		`[1]`:                                    "not a JSON object",
		`{"model":"m"`:                           "ends too early",
		`{"model":"m`:                            "ends too early",
		`{"model":"m"}}`:                         `unexpected '}'`,
		`{"model":"m"} x`:                        `unexpected 'x'`,
		`{"model":"m",}`:                         `unexpected '}'`,
		`{"model":"m""x":1}`:                     "comma is missing",
		`{"model":"a","model":"b"}`:              `"model" is there twice`,
		`{"model":"a","mod\u0065l":"b"}`:         `"model" is there twice`,
		`{"model":{"a":1},"model":"b"}`:          `"model" is there twice`,
		`{"stream":true,"model":"a","stream":1}`: `"stream" is there twice`,
		`{"a":[}`:                                `']' is due`,
		`{"a":` + deep:                           "nested more than",
		`{"model":"` + strings.Repeat("x", 5000): "more than 4096 bytes",
		`{"a":}`:                                 "has no value",
		`{model:"m"}`:                            `unexpected 'm'`,
	} {
		for _, piece := range []int{0, 1, 5} {
			if _, err := scan(body, piece); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.60s in pieces of %d: %v, want …%s…", body, piece, err, want)
			}
		}
	}
}

func TestScannerChecksTypes(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                         "missing",
		`{"model":""}`:               "is empty",
		`{"model":7}`:                "not a string",
		`{"model":null}`:             "not a string",
		`{"model":["m"]}`:            "not a string",
		`{"model":"m","stream":"y"}`: "neither true nor false",
	} {
		s, err := scan(body, 0)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		_, err = s.Model()
		if err == nil {
			_, err = s.Stream()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want …%s…", body, err, want)
		}
	}
}

// TestScannerAgreesWithEncodingJSON compares the scanner with the standard library on random valid objects.
func TestScannerAgreesWithEncodingJSON(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for range 2000 {
		v := map[string]any{"model": word(r), "stream": r.IntN(2) == 0}
		for range r.IntN(4) {
			v["x"+word(r)] = value(r, 4)
		}
		body, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		s, err := scan(string(body), r.IntN(9))
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		model, err := s.Model()
		stream, _ := s.Stream()
		if err != nil || model != v["model"] || stream != v["stream"] {
			t.Fatalf("%s: %q %v %v", body, model, stream, err)
		}
	}
}

func word(r *rand.Rand) string {
	letters := []rune(`ab"\/{}[],:é` + "\n\t")
	out := []rune{'w'}
	for range r.IntN(8) {
		out = append(out, letters[r.IntN(len(letters))])
	}
	return string(out)
}

func value(r *rand.Rand, depth int) any {
	switch kind := r.IntN(6); {
	case kind == 0 && depth > 0:
		return []any{value(r, depth-1), value(r, depth-1)}
	case kind == 1 && depth > 0:
		return map[string]any{"model": value(r, depth-1), word(r): value(r, depth-1)}
	case kind == 2:
		return r.Float64() * 1e6
	case kind == 3:
		return nil
	default:
		return word(r)
	}
}

func FuzzScanner(f *testing.F) {
	f.Add([]byte(`{"model":"m","stream":true,"a":[{"b":"\""}]}`), 3)
	f.Add([]byte(`{"model":"a","model":"b"}`), 1)
	f.Fuzz(func(t *testing.T, body []byte, piece int) {
		s, err := scan(string(body), max(piece, 0)%16)
		whole, errWhole := scan(string(body), 0)
		if (err == nil) != (errWhole == nil) {
			t.Fatalf("pieces change the verdict: %v and %v", err, errWhole)
		}
		var v struct {
			Model json.RawMessage `json:"model"`
		}
		if json.Unmarshal(body, &v) == nil && err == nil {
			a, _ := s.Model()
			b, _ := whole.Model()
			if a != b {
				t.Fatalf("pieces change the model: %q and %q", a, b)
			}
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	body := []byte(`{"messages":[{"role":"user","content":"` + strings.Repeat(`All happy families are alike;\n`, 13_000) + `"}],"model":"m","stream":true}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var s Scanner
		s.Write(body)
		if s.Close() != nil || !s.Found() {
			b.Fatal("not found")
		}
	}
}
