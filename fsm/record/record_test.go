package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type pet struct {
	Name string
	Legs int
	Tags []string
	Home *home
}

type home struct{ Street string }

func petFields(c *Codec, p *pet) {
	Str(c, 1, &p.Name)
	Int(c, 2, &p.Legs)
	Strings(c, 4, &p.Tags)
	Ptr(c, 5, &p.Home, homeFields)
}

func homeFields(c *Codec, h *home) { Str(c, 1, &h.Street) }

// newPet is what a later release makes of pet: one field more.
type newPet struct {
	pet
	Age int
}

func newPetFields(c *Codec, p *newPet) {
	petFields(c, &p.pet)
	Int(c, 6, &p.Age)
}

func file[T any](t testing.TB, rows []T, fields func(*Codec, *T)) []byte {
	t.Helper()
	var b bytes.Buffer
	out := NewWriter(&b, []byte("{\"format\":1}\n"))
	for i := range rows {
		Row(out, 1, &rows[i], fields)
	}
	if _, err := out.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(data []byte) ([]*pet, error) {
	in := NewReader(bytes.NewReader(data))
	if _, err := in.Header(); err != nil {
		return nil, err
	}
	var all []*pet
	err := Each(in, func(b Block) ([]*pet, error) { return Rows(b, petFields) }, func(rows []*pet) error {
		all = append(all, rows...)
		return nil
	})
	return all, err
}

func TestReleasesNextToEachOther(t *testing.T) {
	old := pet{Name: "Rex", Legs: 4, Home: &home{}}
	if a, b := file(t, []pet{old}, petFields), file(t, []newPet{{pet: old}}, newPetFields); !bytes.Equal(a, b) {
		t.Error("a field that is not used changes the bytes")
	}
	_, err := read(file(t, []newPet{{pet: old, Age: 3}}, newPetFields))
	if err == nil || !strings.Contains(err.Error(), "field 6") {
		t.Errorf("a field of a later release: %v", err)
	}
}

// TestStrict gives rows that no Codec writes. Checksums do not help against them; one state must have one form.
func TestStrict(t *testing.T) {
	long := binary.AppendUvarint(nil, 1<<40)
	for name, row := range map[string][]byte{
		"nothing":               {},
		"no end":                {1, 1, 'a'},
		"an empty text":         {1, 0, 0},
		"a zero":                {2, 0, 0},
		"a zero in two bytes":   {2, 0x80, 0, 0},
		"fields out of order":   {2, 2, 1, 1, 'a', 0},
		"a field twice":         {1, 1, 'a', 1, 1, 'a', 0},
		"a field that is not":   {3, 1, 0},
		"an empty list":         {4, 0, 0},
		"a list beyond the row": append([]byte{4}, append(long, 0)...),
		"a text beyond the row": append([]byte{1}, append(long, 0)...),
		"more after the end":    {1, 1, 'a', 0, 0},
		"a number of 71 bits":   {2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0},
		"an object without end": {5, 1, 1, 'a'},
	} {
		body := append(binary.AppendUvarint(nil, uint64(len(row))), row...)
		if got, err := Rows(Block{Table: 1, rows: body}, petFields); err == nil {
			t.Errorf("%s: read as %+v", name, got[0])
		}
	}
	for name, body := range map[string][]byte{"a row beyond the block": {5, 1, 1, 'a', 0}, "a length without end": {0x80}} {
		if _, err := Rows(Block{Table: 1, rows: body}, petFields); !errors.Is(err, errCut) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyBlocks reads a file of many blocks, whole and with one row that does not fit somewhere in it.
func TestManyBlocks(t *testing.T) {
	rows := make([]pet, 12_000)
	for i := range rows {
		rows[i] = pet{Name: fmt.Sprintf("pet %d", i), Legs: i, Tags: []string{strings.Repeat("x", i%97)}}
	}
	rows[777].Tags = []string{strings.Repeat("y", 3*blockSize)}
	data := file(t, rows, petFields)
	if len(data) < 4*blockSize {
		t.Fatalf("only %d bytes", len(data))
	}
	got, err := read(data)
	if err != nil || len(got) != len(rows) {
		t.Fatalf("%d rows, %v", len(got), err)
	}
	for i, p := range got {
		if p.Legs != i || p.Name != rows[i].Name || !slices.Equal(p.Tags, rows[i].Tags) {
			t.Fatalf("row %d is %+v", i, p)
		}
	}
	for at := 20; at < len(data); at += len(data)/50 + 1 {
		bad := bytes.Clone(data)
		bad[at] ^= 0x10
		if _, err := read(bad); err == nil {
			t.Fatalf("byte %d of %d altered, and it is read", at, len(data))
		}
		if _, err := read(data[:at]); err == nil {
			t.Fatalf("cut at %d of %d, and it is read", at, len(data))
		}
	}
}

func TestPlaceEndsTheReading(t *testing.T) {
	data := file(t, make([]pet, 500_000), petFields)
	in := NewReader(bytes.NewReader(data))
	if _, err := in.Header(); err != nil {
		t.Fatal(err)
	}
	full := errors.New("enough")
	if err := Each(in, func(Block) (int, error) { return 0, nil }, func(int) error { return full }); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestWriterKeepsTheFirstError(t *testing.T) {
	out := NewWriter(fullDisk{}, []byte("{}\n"))
	Row(out, 1, &pet{Name: "Rex"}, petFields)
	if _, err := out.End(); err == nil || err.Error() != "disk full" {
		t.Fatalf("got %v", err)
	}
}

// TestImports is this package's rule: it may use goroutines, but nothing that knows time, chance, disks or what the rows mean.
func TestImports(t *testing.T) {
	allowed := []string{"bufio", "bytes", "crypto/sha256", "encoding/binary", "encoding/hex", "errors", "fmt", "hash", "hash/crc32", "io", "maps", "runtime", "slices", "sync"}
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) < 4 {
		t.Fatalf("%d files: %v", len(names), err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range f.Imports {
			if path, _ := strconv.Unquote(imp.Path.Value); !slices.Contains(allowed, path) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}
