package router

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"berth/router/openai"
)

// modelObject is a model as OpenAI's clients list it.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"` // seconds since 1970
	OwnedBy string `json:"owned_by"`
	Root    string `json:"root"` // the model that an alias stands for; otherwise the id
}

// models answers GET /v1/models and /v1/models/{id}. The list has every model of the table, those with no replica too,
// and the aliases. An id is compared byte for byte, after the path was unescaped once.
func (h *handler) models(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		wrongMethod(w, r, http.MethodGet).WriteTo(w)
		return
	}
	client, bad := h.whose(w, r)
	if bad != nil {
		bad.WriteTo(w)
		return
	}
	list, ok := h.modelList()
	if !ok {
		(&openai.Error{Status: http.StatusServiceUnavailable, Code: "model_not_ready", RetryAfter: time.Second,
			Message: "this router has no routing table yet"}).WriteTo(w)
		return
	}
	if client != nil {
		list = slices.DeleteFunc(list, func(m modelObject) bool { return !client.May(m.Root) })
	}
	id, one := strings.CutPrefix(r.URL.Path, "/v1/models/")
	if !one || id == "" {
		writeJSON(w, struct {
			Object string        `json:"object"`
			Data   []modelObject `json:"data"`
		}{"list", list})
		return
	}
	i := slices.IndexFunc(list, func(m modelObject) bool { return m.ID == id })
	if i < 0 {
		unknownModel(id).WriteTo(w)
		return
	}
	writeJSON(w, list[i])
}

// modelList returns names before aliases, each in order; false before the first table.
func (h *handler) modelList() ([]modelObject, bool) {
	table, ok := h.pool.Table()
	if !ok {
		return nil, false
	}
	names, aliases := []modelObject{}, []modelObject{}
	for _, m := range table.Models {
		o := modelObject{ID: m.Name, Object: "model", Created: int64(m.Created) / 1000, OwnedBy: "berth", Root: m.Name}
		names = append(names, o)
		for _, alias := range m.Aliases {
			o.ID = alias
			aliases = append(aliases, o)
		}
	}
	byID := func(a, b modelObject) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(names, byID)
	slices.SortFunc(aliases, byID)
	return append(names, aliases...), true
}

func writeJSON(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(data, '\n')) // the client may be gone
}
