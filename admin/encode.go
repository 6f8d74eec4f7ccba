package admin

import (
	"bytes"
	"encoding/json"
	"strconv"

	"berth/fleet/wire"
)

// encoded is an answer that is JSON already, in pieces.
type encoded [][]byte

func (e encoded) size() int {
	n := 0
	for _, piece := range e {
		n += len(piece)
	}
	return n
}

// encodeStatus writes the status document as encoding/json would, but for the two lists that grow with the fleet: fabrics and idle replicas are given
// as they were written when they changed.
func encodeStatus(doc wire.Status, fabrics, idle []byte) encoded {
	doc.Fabrics, doc.IdleReplicas = nil, nil
	head, err := json.Marshal(doc)
	if err != nil {
		panic("admin: a status document that does not marshal: " + err.Error()) // strings and numbers only: cannot happen
	}
	first, rest := cut(head, `"fabrics":`)
	second, last := cut(rest, `"idle_replicas":`)
	return encoded{first, fabrics, second, idle, last}
}

// cut parts a document after a key whose value is null, and leaves the null out. The key cannot be found inside a string, where its quotes would
// be escaped.
func cut(doc []byte, key string) (before, after []byte) {
	const null = "null"
	at := bytes.Index(doc, []byte(key+null)) + len(key)
	return doc[:at], doc[at+len(null):]
}

func encodeFabrics(rows []wire.FabricCounts) []byte {
	out := append(make([]byte, 0, 96*len(rows)+2), '[')
	for i, r := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, `{"fabric":`...)
		out = appendName(out, r.Fabric)
		out = strconv.AppendInt(append(out, `,"nodes":`...), int64(r.Nodes), 10)
		out = strconv.AppendInt(append(out, `,"free_nodes":`...), int64(r.FreeNodes), 10)
		out = strconv.AppendInt(append(out, `,"largest_free_block":`...), int64(r.LargestFreeBlock), 10)
		out = append(out, '}')
	}
	return append(out, ']')
}

// appendName writes a string that may be absent; one that needs escaping is left to encoding/json.
func appendName(out []byte, name *string) []byte {
	if name == nil {
		return append(out, "null"...)
	}
	for i := range len(*name) {
		if c := (*name)[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(*name)
			return append(out, quoted...)
		}
	}
	return append(append(append(out, '"'), *name...), '"')
}

func encodeRows(rows []wire.IdleRow) []byte {
	data, err := json.Marshal(rows)
	if err != nil {
		panic("admin: idle rows that do not marshal: " + err.Error()) // numbers are finite: cannot happen
	}
	return data
}
