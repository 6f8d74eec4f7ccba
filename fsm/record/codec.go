package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Codec writes a row's fields or reads them; one list of a type's fields serves both, so that the two cannot drift apart:
//
//	func doorFields(c *record.Codec, d *fleet.Door) {
//		record.Str(c, 1, &d.Address)
//		record.Str(c, 2, &d.Key)
//	}
//
// A field has a number, from 1, in ascending order within its type, never used again for another meaning. A field with its zero value is not
// written. So a release that adds a field writes what the one before it writes until the field is used, which is what equal fingerprints in a
// cluster of mixed releases rest on; and a reader that meets a number that it does not know refuses, because to drop it would be to diverge.
type Codec struct {
	out     []byte
	writing bool

	in  string // what is left to read
	tag byte   // number of the next field that was written, 0 at the end of an object
	err error
}

var (
	errCut   = errors.New("it ends in the middle of a field")
	errForm  = errors.New("a field is not in its one right form")
	errCount = errors.New("it counts more than there is")
)

// encode appends a row to a buffer.
func encode[T any](c *Codec, to []byte, row *T, fields func(*Codec, *T)) []byte {
	c.writing, c.out = true, to
	fields(c, row)
	return append(c.out, 0)
}

// decodeSized reads a text that is the length of a row and the row. Strings of the row share the text's memory.
func decodeSized[T any](c *Codec, text string, row *T, fields func(*Codec, *T)) error {
	*c = Codec{in: text}
	if size := c.uint(); size != uint64(len(c.in)) {
		return errForm
	}
	c.open()
	fields(c, row)
	c.close()
	if c.err == nil && c.in != "" {
		return errForm
	}
	return c.err
}

// open and close go around the fields of an object that is read.
func (c *Codec) open() { c.next() }

func (c *Codec) close() {
	if c.tag != 0 {
		c.fail(fmt.Errorf("it has a field %d, which this release does not know", c.tag))
	}
}

func (c *Codec) fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.in, c.tag = "", 0
}

// next reads the number of the next field.
func (c *Codec) next() {
	if c.err != nil {
		return
	}
	if len(c.in) == 0 {
		c.fail(errCut)
		return
	}
	c.tag, c.in = c.in[0], c.in[1:]
}

func (c *Codec) putUint(v uint64) { c.out = binary.AppendUvarint(c.out, v) }

func (c *Codec) uint() uint64 {
	var v uint64
	for i := 0; i < len(c.in) && i < binary.MaxVarintLen64; i++ {
		b := c.in[i]
		if b < 0x80 {
			if i == binary.MaxVarintLen64-1 && b > 1 || i > 0 && b == 0 {
				break // more than 64 bits, or not the shortest form
			}
			c.in = c.in[i+1:]
			return v | uint64(b)<<(7*i)
		}
		v |= uint64(b&0x7f) << (7 * i)
	}
	c.fail(errForm)
	return 0
}

func (c *Codec) putString(s string) {
	c.putUint(uint64(len(s)))
	c.out = append(c.out, s...)
}

func (c *Codec) string() string {
	n := c.uint()
	if n > uint64(len(c.in)) {
		c.fail(errCut)
		return ""
	}
	s := c.in[:n]
	c.in = c.in[n:]
	return s
}

// count reads how many elements follow; each takes at least a byte.
func (c *Codec) count() int {
	n := c.uint()
	if n > uint64(len(c.in)) {
		c.fail(errCount)
		return 0
	}
	return int(n)
}

// nonzero refuses what would have been left out: equal rows must be equal bytes.
func (c *Codec) nonzero(is bool) {
	if !is {
		c.fail(errForm)
	}
	c.next()
}

// Str is a field that holds a text.
func Str[T ~string](c *Codec, n byte, v *T) {
	switch {
	case c.writing && *v != "":
		c.out = append(c.out, n)
		c.putString(string(*v))
	case !c.writing && c.tag == n:
		*v = T(c.string())
		c.nonzero(*v != "")
	}
}

// Uint is a field that holds a count or a number that is never negative.
func Uint[T ~uint64](c *Codec, n byte, v *T) {
	switch {
	case c.writing && *v != 0:
		c.out = append(c.out, n)
		c.putUint(uint64(*v))
	case !c.writing && c.tag == n:
		*v = T(c.uint())
		c.nonzero(*v != 0)
	}
}

// Int is a field that holds a whole number: 0, -1, 1, -2... as 0, 1, 2, 3...
func Int[T ~int | ~int64](c *Codec, n byte, v *T) {
	switch {
	case c.writing && *v != 0:
		c.out = append(c.out, n)
		c.out = binary.AppendVarint(c.out, int64(*v))
	case !c.writing && c.tag == n:
		u := c.uint()
		i := int64(u>>1) ^ -int64(u&1)
		*v = T(i)
		c.nonzero(*v != 0)
	}
}

// Bool is a field that is there or not.
func Bool(c *Codec, n byte, v *bool) {
	switch {
	case c.writing && *v:
		c.out = append(c.out, n)
	case !c.writing && c.tag == n:
		*v = true
		c.next()
	}
}

// Struct is a field that holds an object; it is left out when all of it is zero.
func Struct[T any](c *Codec, n byte, v *T, fields func(*Codec, *T)) {
	switch {
	case c.writing:
		start := len(c.out)
		c.out = append(c.out, n)
		fields(c, v)
		if len(c.out) == start+1 {
			c.out = c.out[:start]
			return
		}
		c.out = append(c.out, 0)
	case c.tag == n:
		c.open()
		if c.tag == 0 {
			c.fail(errForm)
		}
		fields(c, v)
		c.close()
		c.next()
	}
}

// Ptr is a field that holds an object or none; one that is all zero is not the same as none.
func Ptr[T any](c *Codec, n byte, v **T, fields func(*Codec, *T)) {
	switch {
	case c.writing && *v != nil:
		c.out = append(c.out, n)
		fields(c, *v)
		c.out = append(c.out, 0)
	case !c.writing && c.tag == n:
		*v = new(T)
		c.open()
		fields(c, *v)
		c.close()
		c.next()
	}
}

// eager is how many elements are made room for on the word of a count alone.
const eager = 256

// List is a field that holds objects. None and an empty list are the same, and are read as none.
func List[T any](c *Codec, n byte, v *[]T, fields func(*Codec, *T)) {
	switch {
	case c.writing && len(*v) > 0:
		c.out = append(c.out, n)
		c.putUint(uint64(len(*v)))
		for i := range *v {
			fields(c, &(*v)[i])
			c.out = append(c.out, 0)
		}
	case !c.writing && c.tag == n:
		count := c.count()
		list := make([]T, 0, min(count, eager))
		for range count {
			var zero T
			list = append(list, zero)
			c.open()
			fields(c, &list[len(list)-1])
			c.close()
		}
		*v = list
		c.nonzero(count > 0)
	}
}

// Strings is a field that holds texts.
func Strings(c *Codec, n byte, v *[]string) {
	switch {
	case c.writing && len(*v) > 0:
		c.out = append(c.out, n)
		c.putUint(uint64(len(*v)))
		for _, s := range *v {
			c.putString(s)
		}
	case !c.writing && c.tag == n:
		count := c.count()
		list := make([]string, 0, min(count, eager))
		for range count {
			list = append(list, c.string())
		}
		*v = list
		c.nonzero(count > 0)
	}
}

// Pairs is a field that holds names with their texts, in order of name.
func Pairs(c *Codec, n byte, v *map[string]string) {
	switch {
	case c.writing && len(*v) > 0:
		c.out = append(c.out, n)
		c.putUint(uint64(len(*v)))
		for _, k := range slices.Sorted(maps.Keys(*v)) {
			c.putString(k)
			c.putString((*v)[k])
		}
	case !c.writing && c.tag == n:
		count := c.count()
		m, last := make(map[string]string, min(count, eager)), ""
		for i := range count {
			k := c.string()
			if i > 0 && k <= last {
				c.fail(errForm)
			}
			m[k], last = c.string(), k
		}
		*v = m
		c.nonzero(count > 0)
	}
}
