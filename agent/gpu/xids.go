package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"berth/internal/durable"
)

// xidsVersion is the form of the file that keeps XIDs.
const xidsVersion = 1

// XIDs is a Reader that remembers on disk which cards have had an XID that takes them out, where the driver gives no verdict of its own: the event
// comes once, and neither the end of the process that saw it nor that of the agent makes the card well. A verdict of the driver lifts it, and so does
// a reboot.
type XIDs struct {
	reader Reader
	path   string
	boot   string

	mu     sync.Mutex
	loaded bool
	seen   xidFile
}

// xidFile is what is kept.
type xidFile struct {
	Boot string            `json:"boot"`
	XIDs map[string]uint64 `json:"xids"` // newest XID, by the card's UUID
}

// RememberXIDs returns reader with a memory in the file at path; boot names the machine's present boot.
func RememberXIDs(reader Reader, path, boot string) *XIDs {
	return &XIDs{reader: reader, path: path, boot: boot}
}

// Read implements Reader. A memory that cannot be read is an error, as is one that cannot be kept: to go on without would be to call sick cards well.
func (x *XIDs) Read(ctx context.Context) (Reading, error) {
	r, err := x.reader.Read(ctx)
	if err != nil {
		return r, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.load(); err != nil {
		return Reading{}, err
	}
	next := maps.Clone(x.seen.XIDs)
	r.Cards = slices.Clone(r.Cards)
	for i := range r.Cards {
		x.judge(next, &r.Cards[i])
	}
	if maps.Equal(next, x.seen.XIDs) {
		return r, nil
	}
	if err := durable.WriteJSON(x.path, xidsVersion, xidFile{Boot: x.boot, XIDs: next}); err != nil {
		return Reading{}, fmt.Errorf("the XIDs of sick cards cannot be kept: %w", err)
	}
	x.seen.XIDs = next
	return r, nil
}

// judge notes what is new of a card, and gives it the fault that is remembered.
func (x *XIDs) judge(seen map[string]uint64, c *Card) {
	switch {
	case c.Checked:
		delete(seen, c.UUID)
	case c.XID != 0:
		seen[c.UUID] = c.XID
	}
	if xid, ok := seen[c.UUID]; ok && (c.Fault == "" || c.XID != 0) {
		c.XID = xid
		c.Fault = fmt.Sprintf("XID %d; this driver cannot say that the card is well again: reboot the machine, or end the agent, remove %s and start it", xid, x.path)
	}
}

// load reads the file once. What an earlier boot saw is over.
func (x *XIDs) load() error {
	if x.loaded {
		return nil
	}
	var f xidFile
	err := durable.ReadJSON(x.path, xidsVersion, &f)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the XIDs of sick cards cannot be read (remove the file to believe the cards again): %w", err)
	}
	if f.Boot != x.boot || f.XIDs == nil {
		f.XIDs = map[string]uint64{}
	}
	x.seen, x.loaded = f, true
	return nil
}
