package admin

import (
	"bytes"
	"encoding/json"
	"strconv"

	"berth/fleet/wire"
)

// encoded is an answer that is JSON already.
type encoded []byte

// encodeStatus writes the status document as encoding/json would, but for the two lists that grow with the fleet: fabrics are written without
// reflection, and the idle replicas are given as they were written when they were read.
func encodeStatus(doc wire.Status, idle []byte) []byte {
	fabrics := doc.Fabrics
	doc.Fabrics, doc.IdleReplicas = nil, nil
	head, err := json.Marshal(doc)
	if err != nil {
		panic("admin: a status document that does not marshal: " + err.Error()) // strings and numbers only: cannot happen
	}
	rows := appendFabrics(make([]byte, 0, 96*len(fabrics)), fabrics)
	out := make([]byte, 0, len(head)+len(rows)+len(idle)+1) // a line end follows
	out, head = splice(out, head, `"fabrics":`, rows)
	out, head = splice(out, head, `"idle_replicas":`, idle)
	return append(out, head...)
}

// splice copies up to a key whose value is null and puts another value in its place. The key cannot be found inside a string, where its quotes
// would be escaped.
func splice(out, head []byte, key string, value []byte) (_, rest []byte) {
	before, rest, _ := bytes.Cut(head, []byte(key+"null"))
	out = append(append(out, before...), key...)
	return append(out, value...), rest
}

func appendFabrics(out []byte, rows []wire.FabricCounts) []byte {
	out = append(out, '[')
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
